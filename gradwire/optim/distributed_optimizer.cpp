#include "gradwire/optim/distributed_optimizer.h"

#include <map>

#include <ATen/ops/clamp.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

namespace gradwire::optim {
namespace {

// Calls a method at each owner, all at once, and waits for all, even if one fails: none goes on behind the caller's
// back.
template <class Owners, class Call>
auto at_each(const Owners& owners, const Call& call) {
  std::vector<decltype(call(owners.front()))> futures;
  for (const auto& owner : owners) futures.push_back(call(owner));
  for (const auto& future : futures) future.wait();
  return when_all(std::move(futures)).get();
}

}  // namespace

OwnersOfParameters::OwnersOfParameters(const std::vector<Group>& groups, SharingOptions sharing) {
  struct Share {
    Peer owner;
    std::vector<Group> groups;
    std::vector<size_t> positions;
  };
  // Each owner has all groups, so that their options are everywhere the same; some of them without parameters.
  std::map<std::string, Share> shares;
  std::map<Id, size_t> seen;
  for (size_t g = 0; g < groups.size(); ++g) {
    known_.push_back(groups[g].options);
    for (const RRef<at::Tensor>& parameter : groups[g].parameters) {
      if (!seen.emplace(parameter.id(), parameters_).second)
        throw InvalidArgumentError(to_string(parameter) + " is among the parameters of this optimizer twice");
      const Peer owner = parameter.owner();
      Share& share = shares.try_emplace(owner.name(), Share{owner, {}, {}}).first->second;
      if (share.groups.empty())
        for (const Group& group : groups) share.groups.push_back({group.options, {}});
      share.groups[g].parameters.push_back(parameter);
      share.positions.push_back(parameters_++);
    }
  }
  if (shares.empty()) throw InvalidArgumentError("an optimizer without parameters: give it references to some");
  for (auto& [name, share] : shares)
    owners_.push_back({share.owner.make<LocalOptimizer>(share.groups, sharing.hogwild), std::move(share.positions)});
}

void OwnersOfParameters::step(const autograd::ContextView& context, const std::vector<AnyOptions>& options,
                              const StepOptions& with) {
  at::Tensor scale;
  if (with.max_norm) {
    if (!(*with.max_norm > 0)) throw InvalidArgumentError("max_norm is a positive number");
    const at::Tensor total = norm(context);
    if (total.defined()) scale = at::clamp(*with.max_norm / (total + 1e-6), std::nullopt, 1.0);
  }
  const bool changed = options != known_;
  const autograd::ContextGuard guard(context);
  at_each(owners_, [&](const Owner& owner) {
    return owner.optimizer.call(&LocalOptimizer::step, changed ? std::optional(options) : std::nullopt, scale);
  });
  known_ = options;
}

at::Tensor OwnersOfParameters::norm(const autograd::ContextView& context) const {
  const autograd::ContextGuard guard(context);
  const std::vector<std::vector<at::Tensor>> of_owners =
      at_each(owners_, [](const Owner& owner) { return owner.optimizer.call(&LocalOptimizer::norms); });
  // In the order of the parameters, as torch's clip_grad_norm_ would: so the sum has the same bits.
  std::vector<at::Tensor> norms(parameters_);
  for (size_t i = 0; i < owners_.size(); ++i)
    for (size_t j = 0; j < owners_[i].positions.size(); ++j) norms[owners_[i].positions[j]] = of_owners[i].at(j);
  std::erase_if(norms, [](const at::Tensor& norm) { return !norm.defined(); });
  if (norms.empty()) return {};
  return norms.size() == 1 ? norms.front() : at::stack(norms).norm(2.0);
}

std::vector<MaybeState> OwnersOfParameters::state() const {
  const auto of_owners =
      at_each(owners_, [](const Owner& owner) { return owner.optimizer.call(&LocalOptimizer::state); });
  std::vector<MaybeState> states(parameters_);
  for (size_t i = 0; i < owners_.size(); ++i)
    for (size_t j = 0; j < owners_[i].positions.size(); ++j) states[owners_[i].positions[j]] = of_owners[i].at(j);
  return states;
}

void OwnersOfParameters::load_state(const std::vector<MaybeState>& states) {
  if (states.size() != parameters_)
    throw InvalidArgumentError(
        fmt::format("the state of {} parameters for an optimizer with {}", states.size(), parameters_));
  at_each(owners_, [&](const Owner& owner) {
    std::vector<MaybeState> its;
    for (size_t position : owner.positions) its.push_back(states[position]);
    return owner.optimizer.call(&LocalOptimizer::load_state, its);
  });
}

}  // namespace gradwire::optim
