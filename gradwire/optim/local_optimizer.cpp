#include "gradwire/optim/local_optimizer.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include "gradwire/autograd/context.h"
#include "gradwire/base/mutex.h"
#include "gradwire/rref/type_entry.h"

namespace gradwire::optim {
namespace {

Mutex& turn() {
  static Mutex mutex;
  return mutex;
}

at::Tensor checked(const RRef<at::Tensor>& reference) {
  at::Tensor tensor = reference.local();
  if (!tensor.defined() || !tensor.is_leaf())
    throw InvalidArgumentError(to_string(reference) + " is no parameter: an optimizer takes leaves");
  return tensor;
}

// With tensors of its own: a step changes those of the optimizer in place.
template <class Optimizer>
StateOf<Optimizer> copy(StateOf<Optimizer> state) {
  const auto own = [](auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, at::Tensor>)
      if (member.defined()) member = member.clone();
  };
  std::apply([&](auto&... member) { (own(member), ...); }, Kind<Optimizer>::kept(state));
  return state;
}

const AnyOptions& first_options(const std::vector<Group>& groups) {
  if (groups.empty()) throw InvalidArgumentError("an optimizer without a group of parameters");
  return groups.front().options;
}

}  // namespace

LocalOptimizer::LocalOptimizer(const std::vector<Group>& groups, bool hogwild)
    : hogwild_(hogwild), kind_(first_options(groups)) {
  std::vector<torch::optim::OptimizerParamGroup> of_torch;
  std::vector<AnyOptions> options;
  for (const Group& group : groups) {
    std::vector<at::Tensor> aliases;
    for (const RRef<at::Tensor>& reference : group.parameters) {
      const at::Tensor tensor = checked(reference);
      for (const Parameter& other : parameters_)
        if (other.tensor.is_same(tensor))
          throw InvalidArgumentError(to_string(reference) + " is a parameter that this optimizer has already");
      aliases.push_back(tensor.variable_data());
      parameters_.push_back({tensor, aliases.back()});
    }
    of_torch.emplace_back(std::move(aliases));
    options.push_back(group.options);
  }
  optimizer_ = std::visit(
      [&]<class Options>(const Options& defaults) -> std::unique_ptr<torch::optim::Optimizer> {
        using Optimizer = typename KindOf<Options>::type;
        return std::make_unique<Optimizer>(std::move(of_torch), defaults);
      },
      kind_);
  set(options);
}

void LocalOptimizer::set(const std::vector<AnyOptions>& options) {
  if (options.size() != optimizer_->param_groups().size())
    throw InvalidArgumentError(fmt::format("options of {} groups for an optimizer with {}", options.size(),
                                           optimizer_->param_groups().size()));
  for (size_t i = 0; i < options.size(); ++i) {
    if (options[i].index() != kind_.index())
      throw InvalidArgumentError("groups of one optimizer with options of several");
    std::visit(
        [&]<class Options>(const Options& given) {
          optimizer_->param_groups()[i].set_options(std::make_unique<Options>(given));
        },
        options[i]);
  }
}

void LocalOptimizer::step(const std::optional<std::vector<AnyOptions>>& options, const at::Tensor& scale) {
  const autograd::ContextView context = autograd::Context::current();
  const at::NoGradGuard guard;
  const MutexLock lock(turn());
  if (options) set(*options);
  struct AtTheEnd {
    ~AtTheEnd() {
      for (Parameter& parameter : optimizer.parameters_) {
        // torch's own rule for what was saved for a backward pass: a changed value is an error, not a wrong gradient.
        if (stepped && parameter.alias.grad().defined() && !optimizer.hogwild_)
          torch::autograd::impl::bump_version(parameter.tensor);
        parameter.alias.mutable_grad().reset();
      }
    }
    LocalOptimizer& optimizer;
    bool stepped = false;
  } at_the_end{*this};
  for (Parameter& parameter : parameters_) {
    // Its storage may have been exchanged, by set_data or a move to another type.
    if (!parameter.alias.is_alias_of(parameter.tensor)) parameter.alias.set_data(parameter.tensor.variable_data());
    at::Tensor gradient = context.gradient(parameter.tensor);
    parameter.alias.mutable_grad() = gradient.defined() && scale.defined() ? gradient.mul(scale) : gradient;
  }
  at_the_end.stepped = true;
  optimizer_->step();
}

std::vector<at::Tensor> LocalOptimizer::norms() {
  const autograd::ContextView context = autograd::Context::current();
  const at::NoGradGuard guard;
  std::vector<at::Tensor> norms;
  for (const Parameter& parameter : parameters_) {
    const at::Tensor gradient = context.gradient(parameter.tensor);
    norms.push_back(gradient.defined() ? gradient.norm(2.0) : at::Tensor());
  }
  return norms;
}

std::vector<MaybeState> LocalOptimizer::state() {
  const MutexLock lock(turn());
  std::vector<MaybeState> states;
  for (const Parameter& parameter : parameters_) {
    const auto found = optimizer_->state().find(parameter.alias.unsafeGetTensorImpl());
    if (found == optimizer_->state().end())
      states.emplace_back();
    else
      states.push_back(std::visit(
          [&]<class Options>(const Options&) {
            using Optimizer = typename KindOf<Options>::type;
            return AnyState(copy<Optimizer>(static_cast<const StateOf<Optimizer>&>(*found->second)));
          },
          kind_));
  }
  return states;
}

void LocalOptimizer::load_state(const std::vector<MaybeState>& states) {
  if (states.size() != parameters_.size())
    throw InvalidArgumentError(
        fmt::format("the state of {} parameters for an optimizer with {}", states.size(), parameters_.size()));
  for (const MaybeState& state : states)
    if (state && state->index() != kind_.index())
      throw InvalidArgumentError("the state of another kind of optimizer: load what one of the same kind has saved");
  const MutexLock lock(turn());
  for (size_t i = 0; i < states.size(); ++i) {
    void* key = parameters_[i].alias.unsafeGetTensorImpl();
    optimizer_->state().erase(key);
    if (!states[i]) continue;
    optimizer_->state()[key] = std::visit(
        [&]<class Options>(const Options&) -> std::unique_ptr<torch::optim::OptimizerParamState> {
          using Optimizer = typename KindOf<Options>::type;
          return std::make_unique<StateOf<Optimizer>>(copy<Optimizer>(std::get<StateOf<Optimizer>>(*states[i])));
        },
        kind_);
  }
}

void add_optimizer(Registry& registry) {
  registry.add_type<LocalOptimizer>("optim.LocalOptimizer")
      .constructor<std::vector<Group>, bool>()
      .method("step", &LocalOptimizer::step)
      .method("norms", &LocalOptimizer::norms)
      .method("state", &LocalOptimizer::state)
      .method("load_state", &LocalOptimizer::load_state);
}

}  // namespace gradwire::optim
