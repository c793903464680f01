// The part of a DistributedOptimizer that stands at an owner: one of torch's optimizers over the parameters that live
// there.
//
// torch's optimizers read `.grad`. This one steps on aliases of its own, which share the parameters' storage and get
// their gradients from the context of the step: no one's `.grad` is touched, nor raced for (C10).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gradwire/optim/kinds.h"
#include "gradwire/rref/rref.h"

namespace gradwire::optim {

// Parameters that have their options in common.
struct Group {
  AnyOptions options;
  std::vector<RRef<at::Tensor>> parameters;
};

// What it keeps for a parameter; nothing before its first step.
using MaybeState = std::optional<AnyState>;

// Any thread: steps run one at a time, those of other optimizers of this process too, which may have the same
// parameters.
class LocalOptimizer {
 public:
  // The parameters are of this worker. `hogwild`: a step does not count as a change of them, see DistributedOptimizer.
  LocalOptimizer(const std::vector<Group>& groups, bool hogwild);

  // With the gradients of the context that this is called under, each times `scale` if that is defined. `options`: of
  // each group, where they have changed.
  void step(const std::optional<std::vector<AnyOptions>>& options, const at::Tensor& scale);
  // Of the gradients in the context that this is called under, in the order of the parameters; undefined where there
  // is none.
  std::vector<at::Tensor> norms();

  // In the order of the parameters.
  std::vector<MaybeState> state();
  void load_state(const std::vector<MaybeState>& states);

 private:
  struct Parameter {
    at::Tensor tensor;
    at::Tensor alias;
  };
  void set(const std::vector<AnyOptions>& options);

  const bool hogwild_;
  const AnyOptions kind_;  // by its alternative
  std::vector<Parameter> parameters_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

// For Worker::join.
void add_optimizer(Registry& registry);

}  // namespace gradwire::optim
