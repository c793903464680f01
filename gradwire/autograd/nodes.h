// What stands in torch's graph where it crosses to another worker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/autograd/function.h>

#include "gradwire/autograd/hop.h"
#include "gradwire/base/torch_compatibility.h"

namespace gradwire::autograd {

class ContextState;

// At the sender: the gradients of the tensors that left come in here, and go on to what made them.
class SendNode final : public torch::autograd::Node {
 public:
  // Of tensors that require grad.
  explicit SendNode(const std::vector<at::Tensor>& tensors);
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
  std::string name() const override { return "gradwire::SendNode"; }
};

// At the receiver: grad_fn of the tensors that came. Sends their gradients back.
class RecvNode final : public torch::autograd::Node {
 public:
  RecvNode(std::shared_ptr<ContextState> context, ReceivedHopPointer hop)
      : context_(std::move(context)), hop_(std::move(hop)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  std::string name() const override { return "gradwire::RecvNode"; }

  const std::shared_ptr<ContextState>& context() const { return context_; }
  const ReceivedHopPointer& hop() const { return hop_; }

 private:
  const std::shared_ptr<ContextState> context_;
  const ReceivedHopPointer hop_;
};

}  // namespace gradwire::autograd
