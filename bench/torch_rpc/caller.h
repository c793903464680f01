// Two processes that call each other through torch's own RPC, in C++ without Python: what the rows do with them.
#pragma once

#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/distributed/autograd/context/container.h>
#include <torch/csrc/distributed/autograd/engine/dist_engine.h>
#include <torch/csrc/distributed/autograd/utils.h>
#include <torch/csrc/distributed/rpc/rref_context.h>
#include <torch/csrc/distributed/rpc/script_call.h>
#include <torch/csrc/distributed/rpc/script_remote_call.h>
#include <torch/csrc/distributed/rpc/script_resp.h>
#include <torch/csrc/distributed/rpc/tensorpipe_agent.h>
#include <torch/csrc/jit/runtime/operator.h>

namespace gradwire::bench {

namespace rpc = torch::distributed::rpc;
namespace dist_autograd = torch::distributed::autograd;
using Operator = std::shared_ptr<torch::jit::Operator>;
using Answer = c10::intrusive_ptr<rpc::JitFuture>;

inline Operator find_operator(const char* name, const char* overload) {
  for (const Operator& candidate : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name)))
    if (candidate->schema().overload_name() == overload) return candidate;
  throw std::runtime_error(std::string("torch has no operator ") + name);
}

inline at::Tensor result_of(const Answer& answer) {
  answer->waitAndThrow();
  const auto message = answer->value().toCustomClass<rpc::Message>();
  rpc::MessageType type = message->type();
  const auto response = rpc::deserializeResponse(*message, type);
  return static_cast<rpc::ScriptResp&>(*response).value().toTensor();
}

// This process's agent, and what the rows do with the process at its other end.
class Caller {
 public:
  Caller(rpc::TensorPipeAgent& agent, pid_t other) : agent_(agent), other_(other), to_(agent.getWorkerInfo("w1")) {}

  Answer call(const Operator& function, std::vector<c10::IValue> arguments) const {
    return dist_autograd::sendMessageWithAutograd(agent_, to_,
                                                  rpc::ScriptCall(function, std::move(arguments)).toMessage());
  }
  Answer add(const at::Tensor& a, const at::Tensor& b) const { return call(add_, {a, b, 1}); }
  at::Tensor added(const at::Tensor& a, const at::Tensor& b) const { return result_of(add(a, b)); }

  void round_trip(const at::Tensor& tensor) const { result_of(call(detach_, {tensor})); }

  // A sum that stays at the other process.
  c10::intrusive_ptr<rpc::UserRRef> create() const {
    rpc::RRefContext& context = rpc::RRefContext::getInstance();
    auto reference = context.createUserRRef(to_.id_, c10::TensorType::get());
    const Answer created = dist_autograd::sendMessageWithAutograd(
        agent_, to_,
        rpc::ScriptRemoteCall(add_, {small, small, 1}, reference->rrefId(), reference->forkId()).toMessage());
    context.addPendingUser(reference->forkId(), reference);
    created->addCallback(
        [fork = reference->forkId()](rpc::JitFuture& future) { rpc::callback::confirmPendingUser(future, fork); });
    return reference;
  }
  void create_and_drop(int count) const {
    std::vector<c10::intrusive_ptr<rpc::UserRRef>> references;
    for (int i = 0; i < count; ++i) references.push_back(create());
    references.back()->toHere();
  }

  void overlapping_calls(int count) const {
    std::vector<Answer> answers;
    for (int i = 0; i < count; ++i) answers.push_back(add(small, small));
    for (const Answer& answer : answers) result_of(answer);
  }

  // A chain of calls, each with the result of the one before, and its gradients.
  void chain(int hops, const at::Tensor& a, const at::Tensor& b) const {
    pass(
        [&] {
          at::Tensor x = a;
          for (int i = 0; i < hops; ++i) x = added(x, b);
          return x.sum();
        },
        2);
  }
  void fan_out(const at::Tensor& a, const at::Tensor& b) const {
    pass(
        [&] {
          std::vector<Answer> answers;
          for (int i = 0; i < 16; ++i) answers.push_back(add(a, b));
          at::Tensor sum = at::zeros({4});
          for (const Answer& answer : answers) sum = sum.add(result_of(answer));
          return sum.sum();
        },
        2);
  }
  // Runs a forward pass and its backward pass in a context of its own.
  void pass(const std::function<at::Tensor()>& forward, size_t gradients) const {
    auto& container = dist_autograd::DistAutogradContainer::getInstance();
    const auto context = container.newContext();
    dist_autograd::DistEngine::getInstance().execute(context->contextId(), {forward()}, false);
    if (context->getGradients().size() != gradients) throw std::runtime_error("a gradient is missing");
    container.releaseContext(context->contextId());
  }
  // Many contexts at the same time: made, used, and ended.
  void contexts(int count, const at::Tensor& a) const {
    auto& container = dist_autograd::DistAutogradContainer::getInstance();
    std::vector<int64_t> all;
    for (int i = 0; i < count; ++i) {
      // torch knows one current context for each thread, so it is put aside for the next one.
      dist_autograd::DistAutogradContainer::forceCurrentContextId(-1);
      const auto context = container.newContext();
      all.push_back(context->contextId());
      dist_autograd::DistEngine::getInstance().execute(context->contextId(), {added(a, a).sum()}, false);
    }
    for (const int64_t id : all) container.releaseContext(id);
  }

  // By how many percent both processes together grow.
  double growth(const std::function<void()>& body) const {
    const double before = resident_bytes(getpid()) + resident_bytes(other_);
    body();
    return 100 * (resident_bytes(getpid()) + resident_bytes(other_) - before) / before;
  }

  const at::Tensor small = at::ones({4});

 private:
  static double resident_bytes(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/statm");
    double size = 0;
    double resident = 0;
    file >> size >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
  }

  rpc::TensorPipeAgent& agent_;
  const pid_t other_;
  const rpc::WorkerInfo to_;
  const Operator add_ = find_operator("aten::add", "Tensor");
  const Operator detach_ = find_operator("aten::detach", "");
};

}  // namespace gradwire::bench
