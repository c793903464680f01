#include "gradwire/autograd/nodes.h"

#include <torch/csrc/autograd/variable.h>

#include "gradwire/autograd/local_pass.h"
#include "gradwire/base/error.h"

namespace gradwire::autograd {

SendNode::SendNode(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    add_next_edge(torch::autograd::impl::gradient_edge(tensor));
    add_input_metadata(tensor);
  }
}

torch::autograd::variable_list RecvNode::apply(torch::autograd::variable_list&& gradients) {
  LocalPass* pass = LocalPass::running();
  if (pass == nullptr)
    throw InvalidArgumentError(
        "this graph came in part from " + hop_->sender->name +
        ", and a backward of torch's own ends at this worker: use Context::backward, or detach() what was received");
  pass->send_back(*hop_, std::move(gradients));
  return {};
}

}  // namespace gradwire::autograd
