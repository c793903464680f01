// Random programs on workers: the functions that these need, and the machine that calls them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gradwire/gradwire.h"

#include "tests/autograd/random_program.h"

namespace gradwire::autograd {

using Tensors = std::vector<at::Tensor>;

inline constexpr Function<Tensors(Body, Tensors)> run_function{"run"};
inline constexpr Function<at::Tensor(Body, Tensors)> run_for_first{"run_for_first"};
inline constexpr Function<at::Tensor(RRef<at::Tensor>)> use_function{"use"};
inline constexpr Function<Tensors()> gradients_function{"gradients"};

// By worker: all may be in one process.
inline std::map<std::string, Parameters>& all_parameters() {
  static std::map<std::string, Parameters> all;
  return all;
}

class Distributed : public Machine {
 public:
  Distributed(Worker& worker, int size) : worker_(worker), size_(size) {}
  int workers() const override { return size_; }
  int here() const override { return worker_.rank(); }
  Parameters& parameters() override { return all_parameters().at(worker_.name()); }
  Tensors call(int worker, const Body& body, const Tensors& inputs) override {
    return worker_.peer(worker).call(run_function, body, inputs).get();
  }
  std::vector<Tensors> call_all(const std::vector<int>& workers, const std::vector<Body>& bodies,
                                const Tensors& inputs) override {
    std::vector<Future<Tensors>> futures;
    for (size_t i = 0; i < workers.size(); ++i)
      futures.push_back(worker_.peer(workers[i]).call(run_function, bodies[i], inputs));
    return when_all(futures).get();
  }
  struct Reference : Handle {
    explicit Reference(RRef<at::Tensor> made) : reference(std::move(made)) {}
    RRef<at::Tensor> reference;
  };
  HandlePointer remote(int worker, const Body& body, const Tensors& inputs) override {
    return std::make_shared<Reference>(worker_.peer(worker).remote(run_for_first, body, inputs));
  }
  at::Tensor fetch(const HandlePointer& handle) override {
    return static_cast<Reference&>(*handle).reference.to_here();
  }
  at::Tensor use(int worker, const HandlePointer& handle) override {
    return worker_.peer(worker).call(use_function, static_cast<Reference&>(*handle).reference).get();
  }

 private:
  Worker& worker_;
  const int size_;
};

inline Registry functions_of_random_programs(int size) {
  Registry registry;
  registry.add(run_function, [size](const Body& body, const Tensors& inputs) {
    Distributed machine(Worker::current(), size);
    return run(machine, body, inputs);
  });
  registry.add(run_for_first, [size](const Body& body, const Tensors& inputs) {
    Distributed machine(Worker::current(), size);
    return run(machine, body, inputs).at(0);
  });
  registry.add(use_function, [size](const RRef<at::Tensor>& reference) {
    Distributed machine(Worker::current(), size);
    return used(machine, reference.to_here());
  });
  registry.add(gradients_function, [] {
    Tensors all;
    for (const at::Tensor& leaf : all_parameters().at(Worker::current().name()).all())
      all.push_back(Context::current().gradient(leaf));
    return all;
  });
  return registry;
}

// A scalar of what a program returned; undefined if nothing of it can be differentiated.
inline at::Tensor loss_of(const Tensors& results) {
  at::Tensor loss;
  for (const at::Tensor& result : results) {
    if (!result.requires_grad()) continue;
    const at::Tensor sum = result.mul(result).sum();
    loss = loss.defined() ? loss.add(sum) : sum;
  }
  return loss;
}

}  // namespace gradwire::autograd
