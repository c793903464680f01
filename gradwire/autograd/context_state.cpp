#include "gradwire/autograd/context_state.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include "gradwire/autograd/pass.h"

namespace gradwire::autograd {
namespace {

// Whether no other tensor sees this memory. torch's own accumulation asks only how many hold the tensor: then two
// leaves whose gradients are views of one tensor share that memory, and the next pass adds to both of them twice.
bool has_memory_of_its_own(const at::Tensor& gradient) {
  // A part of a larger memory would keep all of that.
  return gradient.has_storage() && gradient.storage().use_count() == 1 &&
         gradient.storage().nbytes() == gradient.nbytes();
}

}  // namespace

ContextState::ContextState(std::weak_ptr<Contexts> contexts, Id id, RecordPointer creator, Incarnation self)
    : contexts_(std::move(contexts)), id_(id), creator_(std::move(creator)), self_(self) {}

bool ContextState::add_send(uint64_t hop, Sent sent) {
  MutexLock lock(mutex_);
  if (released_) return false;
  sends_.emplace(hop, std::move(sent));
  return true;
}

std::optional<ContextState::Sent> ContextState::find_send(uint64_t hop) {
  MutexLock lock(mutex_);
  auto found = sends_.find(hop);
  if (found == sends_.end()) return {};
  return found->second;
}

std::map<uint64_t, ContextState::Sent> ContextState::all_sends() {
  MutexLock lock(mutex_);
  return {sends_.begin(), sends_.end()};
}

at::Tensor ContextState::gradient(const at::Tensor& leaf) {
  throw_if_poisoned();
  MutexLock lock(sums_);
  auto found = gradients_.find(leaf.unsafeGetTensorImpl());
  return found == gradients_.end() ? at::Tensor() : found->second.second;
}

std::vector<std::pair<at::Tensor, at::Tensor>> ContextState::gradients() {
  throw_if_poisoned();
  std::vector<std::pair<at::Tensor, at::Tensor>> all;
  MutexLock lock(sums_);
  for (const auto& [leaf, pair] : gradients_) all.push_back(pair);
  return all;
}

// The engine calls neither the accumulator's own hooks nor those for "after accumulation" for what it captures.
void ContextState::accumulate(torch::autograd::Node* accumulator, at::Tensor gradient, bool create_graph) {
  const at::Tensor variable = static_cast<torch::autograd::AccumulateGrad*>(accumulator)->variable;
  for (const auto& hook : accumulator->pre_hooks()) gradient = std::move((*hook)({std::move(gradient)}).at(0));
  if (!gradient.defined()) return;
  const bool has_post_hooks = !accumulator->post_hooks().empty();
  const at::Tensor for_hooks = has_post_hooks ? gradient : at::Tensor();
  {
    const torch::autograd::AutoGradMode mode(create_graph);
    MutexLock lock(sums_);
    if (closed_) return;
    std::pair<at::Tensor, at::Tensor>& entry = gradients_[variable.unsafeGetTensorImpl()];
    entry.first = variable;
    // A first gradient is taken over if the reference of this function is the only one, and is copied otherwise.
    const size_t most_references = has_memory_of_its_own(gradient) ? 1 : 0;
    torch::autograd::AccumulateGrad::accumulateGrad(
        variable, entry.second, gradient, most_references,
        [&entry](at::Tensor&& updated) { entry.second = std::move(updated); });
  }
  for (const auto& hook : accumulator->post_hooks()) (*hook)({}, {for_hooks});
  if (auto& hook = torch::autograd::impl::post_acc_grad_hooks(variable)) (*hook)(variable);
}

void ContextState::poison(std::exception_ptr cause) {
  MutexLock lock(mutex_);
  if (!poison_) poison_ = std::move(cause);
}

void ContextState::throw_if_poisoned() {
  MutexLock lock(mutex_);
  if (poison_) std::rethrow_exception(poison_);
}

bool ContextState::add_pass(const std::shared_ptr<Pass>& pass) {
  std::vector<ArrivedGradient> kept;
  {
    MutexLock lock(mutex_);
    if (released_ || ending_) return false;
    if (!passes_.emplace(pass->id(), pass).second) return true;  // two gradients began it at once
    if (auto early = early_.find(pass->id()); early != early_.end()) {
      kept = std::move(early->second);
      early_.erase(early);
    }
    // Under the lock: later ones come after these.
    for (ArrivedGradient& gradient : kept) pass->deliver(std::move(gradient));
  }
  return true;
}

void ContextState::end_pass(Id pass) {
  std::shared_ptr<Pass> ended;  // its hold is let go without the lock
  MutexLock lock(mutex_);
  if (auto found = passes_.find(pass); found != passes_.end()) {
    ended = std::move(found->second);
    passes_.erase(found);
  }
  if (!released_)
    ended_passes_.emplace(
        pass, ended && ended->options().fast ? EndedPass{.fast = true, .given = ended->given()} : EndedPass{});
}

std::optional<ContextState::EndedPass> ContextState::ended(Id pass) {
  MutexLock lock(mutex_);
  auto found = ended_passes_.find(pass);
  if (found == ended_passes_.end()) return {};
  return found->second;
}

void ContextState::end_pass_heard(Id pass) {
  MutexLock lock(mutex_);
  if (auto found = ended_passes_.find(pass); found != ended_passes_.end()) found->second.given.clear();
}

std::shared_ptr<Pass> ContextState::find_pass(Id pass) {
  MutexLock lock(mutex_);
  auto found = passes_.find(pass);
  return found == passes_.end() ? nullptr : found->second;
}

std::shared_ptr<Pass> ContextState::pass_for(Id pass, Incarnation from, ArrivedGradient& gradient) {
  MutexLock lock(mutex_);
  auto sent = sends_.find(gradient.hop);
  if (released_ || sent == sends_.end() || sent->second.receiver->incarnation != from || ended_passes_.contains(pass))
    return nullptr;
  if (auto found = passes_.find(pass); found != passes_.end()) return found->second;
  early_[pass].push_back(std::move(gradient));
  return nullptr;
}

std::vector<std::shared_ptr<Pass>> ContextState::passes() {
  std::vector<std::shared_ptr<Pass>> all;
  MutexLock lock(mutex_);
  for (const auto& [id, pass] : passes_) all.push_back(pass);
  return all;
}

void ContextState::root_gone(Incarnation root) {
  std::vector<std::vector<ArrivedGradient>> dropped;  // outside of the lock
  MutexLock lock(mutex_);
  for (auto early = early_.begin(); early != early_.end();) {
    if (early->first.maker == root) {
      dropped.push_back(std::move(early->second));
      early = early_.erase(early);
    } else {
      ++early;
    }
  }
}

void ContextState::hold() {
  MutexLock lock(mutex_);
  ++holds_;
}

bool ContextState::let_go() {
  MutexLock lock(mutex_);
  --holds_;
  return over();
}

bool ContextState::end() {
  MutexLock lock(mutex_);
  ending_ = true;
  return over();
}

bool ContextState::ending() {
  MutexLock lock(mutex_);
  return ending_ || released_;
}

void ContextState::add_member(const RecordPointer& member) {
  MutexLock lock(mutex_);
  if (member->incarnation != self_) members_.emplace(member->incarnation, member);
}

void ContextState::remove_member(Incarnation member) {
  MutexLock lock(mutex_);
  members_.erase(member);
}

std::unique_ptr<ContextState::Remains> ContextState::release_if_over() {
  std::unique_ptr<Remains> remains;
  {
    MutexLock lock(mutex_);
    if (!over()) return nullptr;
    remains = take_all();
  }
  take_walks_and_sums(*remains);
  return remains;
}

std::unique_ptr<ContextState::Remains> ContextState::release() {
  std::unique_ptr<Remains> remains;
  {
    MutexLock lock(mutex_);
    remains = take_all();
  }
  take_walks_and_sums(*remains);
  return remains;
}

std::unique_ptr<ContextState::Remains> ContextState::take_all() {
  auto remains = std::make_unique<Remains>();
  released_ = true;
  for (auto& [incarnation, member] : members_) remains->members.push_back(std::move(member));
  members_.clear();
  remains->sends.swap(sends_);
  remains->early.swap(early_);
  ended_passes_.clear();
  return remains;
}

void ContextState::take_walks_and_sums(Remains& remains) {
  {
    MutexLock lock(walks_);
    walked_.clear();
  }
  MutexLock lock(sums_);
  closed_ = true;
  remains.gradients.swap(gradients_);
}

ContextState::Counts ContextState::counts() {
  Counts counts;
  {
    MutexLock lock(sums_);
    counts.gradients = gradients_.size();
  }
  MutexLock lock(mutex_);
  counts.holds = holds_;
  counts.sends = sends_.size();
  counts.passes = passes_.size();
  for (const auto& [pass, gradients] : early_) counts.early_gradients += gradients.size();
  counts.members = members_.size();
  counts.ending = ending_;
  return counts;
}

}  // namespace gradwire::autograd
