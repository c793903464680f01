// Walks of torch's graph on this worker.
#pragma once

#include <functional>
#include <vector>

#include <c10/util/flat_hash_map.h>

#include "gradwire/autograd/nodes.h"

namespace gradwire::autograd {

// Finds the leaves and the recv nodes that can be reached. One thread.
class Walk {
 public:
  // Throws InvalidArgumentError for a recv node of another context.
  explicit Walk(const ContextState& context) : context_(context) {}
  // `beyond(node)` tells whether to go on beyond a node; null: always.
  void from(torch::autograd::Node* start, const std::function<bool(torch::autograd::Node*)>& beyond = nullptr);

  const std::vector<torch::autograd::Node*>& leaves() const { return leaves_; }  // AccumulateGrad
  const std::vector<RecvNode*>& received() const { return received_; }
  size_t nodes() const { return seen_.size(); }

 private:
  void look_at(torch::autograd::Node* node);

  const ContextState& context_;
  ska::flat_hash_set<torch::autograd::Node*> seen_;
  std::vector<torch::autograd::Node*> open_;
  std::vector<torch::autograd::Node*> leaves_;
  std::vector<RecvNode*> received_;
};

}  // namespace gradwire::autograd
