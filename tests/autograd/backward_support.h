// What the tests of backward passes share: functions whose gradients do something out of the ordinary.
#pragma once

#include <future>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tests/autograd/support.h"

namespace gradwire::autograd {

using Tensors = std::vector<at::Tensor>;

inline constexpr Function<Tensors(at::Tensor)> several{"several"};
inline constexpr Function<at::Tensor(at::Tensor)> goes_a_long_way{"goes_a_long_way"};
inline constexpr Function<at::Tensor(at::Tensor)> breaks_backward{"breaks_backward"};
inline constexpr Function<at::Tensor(at::Tensor)> changed_in_place{"changed_in_place"};
inline constexpr Function<at::Tensor(at::Tensor)> slow_backward{"slow_backward"};
inline constexpr Function<at::Tensor(at::Tensor)> counted{"counted"};
inline constexpr Function<at::Tensor(at::Tensor)> ignored{"ignored"};
inline constexpr Function<at::Tensor(at::Tensor)> embedded{"embedded"};
inline constexpr Function<at::Tensor()> table_gradient{"table_gradient"};
inline constexpr Function<at::Tensor(at::Tensor)> checkpointed{"checkpointed"};
inline constexpr Function<void(at::Tensor)> backward_there{"backward_there"};
inline constexpr Function<std::string()> read_gradient{"read_gradient"};
inline constexpr Function<at::Tensor(at::Tensor)> calls_in_backward{"calls_in_backward"};

inline std::atomic<int> backward_runs = 0;
inline std::promise<void>& slow_gate() {
  static auto* gate = new std::promise<void>;
  return *gate;
}

struct Counted : torch::autograd::Function<Counted> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static Tensors backward(torch::autograd::AutogradContext*, Tensors gradients) {
    ++backward_runs;
    return gradients;
  }
};
struct Breaks : torch::autograd::Function<Breaks> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors&) {
    throw std::runtime_error("broken on purpose");
  }
};
struct Slow : torch::autograd::Function<Slow> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static Tensors backward(torch::autograd::AutogradContext*, Tensors gradients) {
    slow_gate().get_future().wait();
    return gradients;
  }
};
// Has no gradient to give.
struct Ignores : torch::autograd::Function<Ignores> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors&) { return {at::Tensor()}; }
};
// Computes forward again in its backward, by a pass of torch's inside ours.
struct Checkpointed : torch::autograd::Function<Checkpointed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x.sin();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    const at::Tensor x = context->get_saved_variables()[0].detach().set_requires_grad(true);
    at::Tensor y;
    {
      const at::AutoGradMode on(true);
      y = x.sin();
    }
    return torch::autograd::grad({y}, {x}, {gradients[0]});
  }
};
// Calls another worker while gradients are computed.
struct CallsInBackward : torch::autograd::Function<CallsInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors& gradients) {
    return {Worker::current().peer("worker0").call(twice, gradients[0]).get()};
  }
};

inline at::Tensor table() {
  static const at::Tensor table = at::ones({5, 2}, at::kDouble).set_requires_grad(true);
  return table;
}

// More nodes than are walked when a message is sent.
inline at::Tensor long_way(at::Tensor x) {
  for (int i = 0; i < 200'010; ++i) x = x.add(0);
  return x;
}

inline Registry functions_of_passes() {
  Registry registry = common_functions();
  registry.add(several, [](const at::Tensor& x) { return Tensors{x.mul(weight()), x.mul(5), x.detach(), x.sin()}; });
  registry.add(goes_a_long_way, [](const at::Tensor& x) {
    return long_way(Worker::current().peer("worker2").call(twice, x.mul(weight())).get().mul(0.5));
  });
  registry.add(breaks_backward, [](const at::Tensor& x) { return Breaks::apply(x); });
  registry.add(slow_backward, [](const at::Tensor& x) { return Slow::apply(x); });
  registry.add(counted, [](const at::Tensor& x) { return Counted::apply(x); });
  registry.add(ignored, [](const at::Tensor& x) { return Ignores::apply(x); });
  registry.add(checkpointed, [](const at::Tensor& x) { return Checkpointed::apply(x); });
  registry.add(calls_in_backward, [](const at::Tensor& x) { return CallsInBackward::apply(x); });
  registry.add(changed_in_place, [](const at::Tensor& x) {
    at::Tensor y = x.mul(weight());
    at::Tensor z = y.mul(y);
    const at::NoGradGuard guard;
    y.add_(1);
    return z;
  });
  registry.add(embedded, [](const at::Tensor& rows) { return at::embedding(table(), rows, -1, false, true); });
  registry.add(table_gradient, [] { return Context::current().gradient(table()); });
  registry.add(backward_there, [](const at::Tensor& x) { Context::current().backward(x.mul(weight()).sum()); });
  registry.add(read_gradient, [] {
    try {
      Context::current().gradient(weight());
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("readable");
  });
  return registry;
}

class Backward : public ::testing::Test {
 protected:
  Backward() { slow_gate() = {}; }
  Peer peer(int rank) { return cluster[0].peer(rank); }
  uint64_t messages_sent(int from, int to) {
    return WorkerAccess::core(cluster[from])
        .endpoint()
        ->session(WorkerAccess::core(cluster[to]).endpoint()->record())
        ->statistics()
        .sent;
  }
  testing::Cluster cluster{3, functions_of_passes()};
  Worker& worker = cluster[0];
  const at::Tensor x = leaf(5);
};

}  // namespace gradwire::autograd
