#include "gradwire/autograd/pass.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gradwire::autograd {

Pass::Pass(Id id, std::shared_ptr<Frame> frame, PassOptions options, RecordPointer root)
    : id_(id), frame_(std::move(frame)), options_(options), root_(std::move(root)) {}

void Pass::plan(std::map<uint64_t, ContextState::Sent> hops) {
  MutexLock lock(mutex_);
  planned_ = std::move(hops);
  for (const auto& [hop, sent] : planned_) missing_.insert(hop);
  is_planned_ = true;
}

void Pass::deliver(ArrivedGradient gradient) {
  {
    MutexLock lock(mutex_);
    if (missing_.erase(gradient.hop) == 0) return;
    arrived_.push_back(std::move(gradient));
  }
  signal_.notify();
}

bool Pass::should_start() {
  MutexLock lock(mutex_);
  if (started_ || arrived_.empty()) return false;
  started_ = true;
  return true;
}

std::optional<ArrivedGradient> Pass::take() {
  MutexLock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (arrived_.empty()) return {};
  std::optional<ArrivedGradient> gradient(std::move(arrived_.front()));
  arrived_.pop_front();
  return gradient;
}

bool Pass::has_arrived() const {
  MutexLock lock(mutex_);
  return !arrived_.empty();
}

void Pass::check_in_time() {
  check();
  throw TimeoutError(
      fmt::format("the backward pass took longer than {} ms; it waits for {}. Give it more time with "
                  "BackwardOptions::timeout",
                  timeout_.count(), whom_it_waits_for()));
}

void Pass::check() const {
  MutexLock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

bool Pass::fail(std::exception_ptr cause) {
  {
    MutexLock lock(mutex_);
    if (failure_ || finished_) return false;
    failure_ = std::move(cause);
    failed_ = true;
  }
  signal_.notify();
  return true;
}

void Pass::ran() {
  MutexLock lock(mutex_);
  ran_ = true;
}

bool Pass::finishes() {
  MutexLock lock(mutex_);
  if (finished_ || failure_ || !ran_ || !is_planned_ || !missing_.empty()) return false;
  finished_ = true;
  return true;
}

bool Pass::is_missing_any() {
  MutexLock lock(mutex_);
  return !missing_.empty();
}

bool Pass::waits_for(Incarnation peer) {
  MutexLock lock(mutex_);
  return std::ranges::any_of(missing_, [&](uint64_t hop) { return planned_.at(hop).receiver->incarnation == peer; });
}

void Pass::write_later(const std::shared_ptr<net::Session>& session) {
  MutexLock lock(mutex_);
  if (unwritten_.empty() || unwritten_.back() != session) unwritten_.push_back(session);
}

std::vector<std::shared_ptr<net::Session>> Pass::take_unwritten() {
  MutexLock lock(mutex_);
  return std::exchange(unwritten_, {});
}

void Pass::gave(Ancestor hop) {
  MutexLock lock(mutex_);
  if (options_.fast && is_root()) settle(hop.hop, hop.sender);
  given_.push_back(std::move(hop));
}

std::vector<Ancestor> Pass::given() {
  MutexLock lock(mutex_);
  return given_;
}

void Pass::settle(Id hop, const RecordPointer& sender) {
  auto [place, is_new] = unsettled_.emplace(hop, sender);
  if (!is_new) unsettled_.erase(place);
}

void Pass::done_by_hop(const std::vector<Id>& taken, const std::vector<Ancestor>& gave) {
  {
    MutexLock lock(mutex_);
    for (const Id& hop : taken) settle(hop, nullptr);
    for (const Ancestor& hop : gave) settle(hop.hop, hop.sender);
  }
  signal_.notify();
}

RecordPointer Pass::awaited() {
  MutexLock lock(mutex_);
  if (!missing_.empty()) return planned_.at(*missing_.begin()).receiver;
  for (const auto& [hop, sender] : unsettled_)
    if (sender) return sender;
  return not_done_.empty() ? nullptr : not_done_.begin()->second;
}

void Pass::expect_done(const RecordPointer& participant) {
  MutexLock lock(mutex_);
  participants_.emplace(participant->incarnation, participant);
  not_done_.emplace(participant->incarnation, participant);
}

void Pass::done(Incarnation participant) {
  {
    MutexLock lock(mutex_);
    not_done_.erase(participant);
  }
  signal_.notify();
}

bool Pass::all_done() {
  MutexLock lock(mutex_);
  return not_done_.empty() && missing_.empty() && unsettled_.empty();
}

bool Pass::takes_part(Incarnation peer) {
  MutexLock lock(mutex_);
  return participants_.contains(peer) || asked_.contains(peer) ||
         std::ranges::any_of(unsettled_, [&](const auto& hop) { return hop.first.maker == peer; });
}

std::vector<RecordPointer> Pass::participants() {
  std::vector<RecordPointer> all;
  MutexLock lock(mutex_);
  for (const auto& [incarnation, participant] : participants_) all.push_back(participant);
  if (options_.fast)
    for (const Ancestor& hop : given_) all.push_back(hop.sender);
  return all;
}

std::string Pass::whom_it_waits_for() {
  std::set<std::string> names;
  MutexLock lock(mutex_);
  for (const auto& [incarnation, participant] : not_done_) names.insert(participant->name);
  for (const auto& [hop, sender] : unsettled_)
    if (sender) names.insert(sender->name);
  for (uint64_t hop : missing_) names.insert(planned_.at(hop).receiver->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void Pass::ask(Incarnation peer) {
  MutexLock lock(mutex_);
  ++asked_[peer];
}

void Pass::reached(Incarnation peer, std::vector<Ancestor> ancestors) {
  {
    MutexLock lock(mutex_);
    auto found = asked_.find(peer);
    if (found == asked_.end()) return;
    if (--found->second == 0) asked_.erase(found);
    answers_.insert(answers_.end(), std::make_move_iterator(ancestors.begin()),
                    std::make_move_iterator(ancestors.end()));
  }
  signal_.notify();
}

bool Pass::answered() {
  MutexLock lock(mutex_);
  return asked_.empty();
}

std::vector<Ancestor> Pass::take_answers() {
  MutexLock lock(mutex_);
  return std::exchange(answers_, {});
}

}  // namespace gradwire::autograd
