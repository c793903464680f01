#include "gradwire/autograd/walk.h"

#include <typeinfo>

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "gradwire/autograd/context_state.h"
#include "gradwire/base/error.h"

namespace gradwire::autograd {

void Walk::from(torch::autograd::Node* start, const std::function<bool(torch::autograd::Node*)>& beyond) {
  const auto visit = [&](torch::autograd::Node* node) {
    if (node == nullptr || !seen_.insert(node).second) return;
    look_at(node);
    if (!beyond || beyond(node)) open_.push_back(node);
  };
  visit(start);
  while (!open_.empty()) {
    torch::autograd::Node* node = open_.back();
    open_.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
}

void Walk::look_at(torch::autograd::Node* node) {
  const std::type_info& type = typeid(*node);
  if (type == typeid(torch::autograd::AccumulateGrad)) {
    leaves_.push_back(node);
  } else if (type == typeid(RecvNode)) {
    auto* received = static_cast<RecvNode*>(node);
    if (received->context().get() != &context_)
      throw InvalidArgumentError("the graph reaches a tensor that came from " + received->hop()->sender->name +
                                 " under another context, " + to_string(received->context()->id()) +
                                 ": detach() it, or use one context for both");
    received_.push_back(received);
  }
}

}  // namespace gradwire::autograd
