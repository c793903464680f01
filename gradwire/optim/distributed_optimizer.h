// One of torch's optimizers over parameters that live on several workers.
//
//   std::vector<gradwire::RRef<torch::Tensor>> parameters = gradwire::nn::parameters(net).get();
//   gradwire::optim::DistributedOptimizer<torch::optim::Adam> optimizer(parameters, torch::optim::AdamOptions(1e-3));
//   ...
//   context.backward(loss);
//   optimizer.step(context);                     // one call per owner, all owners at once
//   optimizer.step(context, {.max_norm = 1.0});  // gradients clipped by their norm over all workers
//
// Gradients come from the context alone; parameters without one in it are left as they are; `.grad` is neither read
// nor written. Steps are serialised per owner. A step counts as a change of the parameters: the backward pass of
// another trainer over the values from before it fails with torch's in-place error; with `hogwild` it goes on.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gradwire/autograd/context.h"
#include "gradwire/optim/local_optimizer.h"

namespace gradwire::optim {

struct StepOptions {
  // Gradients are scaled down so that their norm, over all parameters of the optimizer on all workers, is at most this.
  std::optional<double> max_norm{};
};

struct SharingOptions {
  // For trainers that step without waiting for each other: see above.
  bool hogwild = false;
};

// What an optimizer knows besides the parameters, in the order they were given in.
struct OptimizerState {
  std::vector<AnyOptions> options;  // of each group
  std::vector<MaybeState> parameters;
};
// In a file that plain torch reads (torch.load in Python, torch::pickle_load): a dictionary.
void save(const OptimizerState& state, const std::string& path);
OptimizerState load_optimizer_state(const std::string& path);

// What does not depend on the kind of optimizer.
class OwnersOfParameters {
 public:
  OwnersOfParameters(const std::vector<Group>& groups, SharingOptions sharing);

  void step(const autograd::ContextView& context, const std::vector<AnyOptions>& options, const StepOptions& with);
  at::Tensor norm(const autograd::ContextView& context) const;
  std::vector<MaybeState> state() const;
  void load_state(const std::vector<MaybeState>& states);

 private:
  struct Owner {
    RRef<LocalOptimizer> optimizer;
    std::vector<size_t> positions;  // of its parameters, among all
  };
  std::vector<Owner> owners_;
  size_t parameters_ = 0;
  std::vector<AnyOptions> known_;  // the options that the owners have
};

// For one thread at a time.
template <class Optimizer>
class DistributedOptimizer {
 public:
  using Options = OptionsOf<Optimizer>;
  // Parameters with options of their own; what is not set in them is as in the optimizer's.
  using ParameterGroup = std::pair<std::vector<RRef<at::Tensor>>, Options>;

  DistributedOptimizer(const std::vector<RRef<at::Tensor>>& parameters, const Options& options,
                       SharingOptions sharing = {})
      : DistributedOptimizer(std::vector<ParameterGroup>{{parameters, options}}, options, sharing) {}
  DistributedOptimizer(const std::vector<ParameterGroup>& groups, const Options& options, SharingOptions sharing = {})
      : settings_(without_parameters(groups), options), owners_(with_parameters(groups), sharing) {}

  // Returns when all owners have made the step. Throws what fails, with the worker in the text.
  void step(const autograd::ContextView& context, const StepOptions& with = {}) {
    owners_.step(context, options(), with);
  }
  // Of the gradients in the context, over all workers.
  double gradient_norm(const autograd::ContextView& context) const {
    const at::Tensor norm = owners_.norm(context);
    return norm.defined() ? norm.template item<double>() : 0;
  }

  // Groups and options as torch's optimizer has them, without parameters: what is changed here holds from the next
  // step on. torch's schedulers take it: torch::optim::StepLR scheduler(optimizer.settings(), 10, 0.5).
  Optimizer& settings() { return settings_; }

  OptimizerState state() const { return {options(), owners_.state()}; }
  void load_state(const OptimizerState& state) {
    if (state.options.size() != settings_.param_groups().size())
      throw InvalidArgumentError("the state of an optimizer with " + std::to_string(state.options.size()) +
                                 " groups for one with " + std::to_string(settings_.param_groups().size()));
    for (const AnyOptions& given : state.options)
      if (!std::holds_alternative<Options>(given))
        throw InvalidArgumentError(std::string("the state of another kind of optimizer than ") + Kind<Optimizer>::name);
    owners_.load_state(state.parameters);
    for (size_t i = 0; i < state.options.size(); ++i)
      static_cast<Options&>(settings_.param_groups()[i].options()) = std::get<Options>(state.options[i]);
  }

 private:
  static std::vector<torch::optim::OptimizerParamGroup> without_parameters(const std::vector<ParameterGroup>& groups) {
    std::vector<torch::optim::OptimizerParamGroup> of_torch;
    for (const ParameterGroup& group : groups)
      of_torch.emplace_back(std::vector<at::Tensor>(), std::make_unique<Options>(group.second));
    return of_torch;
  }
  std::vector<AnyOptions> options() const {
    std::vector<AnyOptions> options;
    for (const auto& group : settings_.param_groups())
      options.emplace_back(static_cast<const Options&>(group.options()));
    return options;
  }
  std::vector<Group> with_parameters(const std::vector<ParameterGroup>& given) const {
    std::vector<Group> groups;
    const std::vector<AnyOptions> all = options();
    for (size_t i = 0; i < given.size(); ++i) groups.push_back({all[i], given[i].first});
    return groups;
  }

  Optimizer settings_;
  OwnersOfParameters owners_;
};

}  // namespace gradwire::optim
