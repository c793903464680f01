// How a worker enters its group: the part of Membership that runs once, before anybody knows the worker.
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gradwire/rpc/membership.h"

namespace gradwire {
namespace {

using Clock = std::chrono::steady_clock;

// How long one member alone is waited for, before the next one is asked as well.
constexpr auto head_start = std::chrono::milliseconds(100);

// Dials members, one after another, until one answers.
class Asked {
 public:
  explicit Asked(net::Endpoint& endpoint) : endpoint_(endpoint) {}

  void ask(const net::Record& record) {
    names_.push_back(to_string(record));
    std::shared_ptr<net::Session> session;
    try {
      session = endpoint_.session(record);
    } catch (const PeerGoneError&) {
      // It was asked before, and is gone.
      MutexLock lock(answers_->mutex);
      ++answers_->gone;
      return;
    }
    session->when_answered([answers = answers_](bool answered) {
      MutexLock lock(answers->mutex);
      ++(answered ? answers->living : answers->gone);
      answers->changed.notify_all();
    });
  }
  // Waits until one has answered or all are gone. True if one has; nothing if the deadline came first.
  std::optional<bool> wait(Clock::time_point deadline) {
    const net::Threads::Blocked blocked;
    MutexLock lock(answers_->mutex);
    for (;;) {
      if (answers_->living > 0) return true;
      if (answers_->gone == names_.size()) return false;
      if (Clock::now() >= deadline) return {};
      lock.wait_until(answers_->changed, deadline);
    }
  }
  std::string names() const { return fmt::format("{}", fmt::join(names_, ", ")); }

 private:
  // Sessions tell it, also when nobody waits any more.
  struct Answers {
    Mutex mutex;
    size_t living GRADWIRE_GUARDED_BY(mutex) = 0;
    size_t gone GRADWIRE_GUARDED_BY(mutex) = 0;
    Condition changed;
  };
  net::Endpoint& endpoint_;
  const std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  std::vector<std::string> names_;
};

}  // namespace

void Membership::enter(const std::shared_ptr<net::Endpoint>& endpoint, std::optional<int> world_size,
                       net::Time deadline) {
  const RecordPointer me(endpoint, &endpoint->record());
  {
    MutexLock lock(mutex_);
    mine_ = me;
  }
  std::optional<net::Record> replaced;
  for (bool entered = false; !entered;) {
    net::MeetingPoint::Group group;
    if (world_size) group = choose_generation(*endpoint, *world_size, deadline);
    if (std::optional<net::Record> before = claim_name(*endpoint, deadline)) replaced = std::move(before);
    meeting_point_->publish(*me);
    entered = !world_size;
    // Whoever takes this group for one of an earlier run now finds this worker, or fails to replace the group.
    while (!entered) {
      const net::MeetingPoint::Group next{group.generation, me->incarnation};
      const net::MeetingPoint::Group there = meeting_point_->replace_group(group, next);
      entered = there == next;
      if (there.generation != group.generation) break;
      group = there;
    }
  }
  // A member that never met its earlier life hears that this one is gone before it hears of the new one.
  if (replaced) meeting_point_->hint_gone(*replaced);
  meeting_point_->add_event({.kind = net::MeetingPoint::Event::Kind::joined, .record = *me});
  entered_ = true;
}

// The group to join: the one in the store, if it is empty or one of its members answers; else a new one.
net::MeetingPoint::Group Membership::choose_generation(net::Endpoint& endpoint, int world_size, net::Time deadline) {
  for (;;) {
    const net::MeetingPoint::Group group = meeting_point_->group();
    meeting_point_->use_generation(group.generation);
    if (group.joined_last == Incarnation::none) return group;
    Asked asked(endpoint);
    std::optional<bool> answered;
    for (int rank = 0; rank < world_size && !answered.value_or(false); ++rank)
      if (const std::optional<net::Record> member = meeting_point_->look_up(rank)) {
        asked.ask(*member);
        answered = asked.wait(std::min<net::Time>(deadline, Clock::now() + head_start));
      }
    if (!answered.value_or(false)) answered = asked.wait(deadline);
    if (!answered)
      throw TimeoutError(fmt::format(
          "{} has a group whose workers neither answer nor refuse at their addresses: {}. If they belong to "
          "an earlier run, choose another store, or remove this one",
          meeting_point_->place(), asked.names()));
    if (*answered) return group;
    const net::MeetingPoint::Group next{group.generation + 1, Incarnation::none};
    if (meeting_point_->replace_group(group, next) == next)
      LOG(WARNING) << fmt::format(
          "gradwire: {} holds the records of an earlier run, and none of its workers answers ({}): a new group begins "
          "there",
          meeting_point_->place(), asked.names());
  }
}

// Returns the record of the worker that had the name before, and is gone.
std::optional<net::Record> Membership::claim_name(net::Endpoint& endpoint, net::Time deadline) {
  const RecordPointer me = mine();
  std::optional<net::Record> before;
  while (std::optional<net::Record> there = meeting_point_->claim_name(*me, before)) {
    Asked asked(endpoint);
    asked.ask(*there);
    const std::optional<bool> answered = asked.wait(deadline);
    if (!answered)
      throw TimeoutError(fmt::format(
          "the name {} is registered in {} for {}, which neither answers nor refuses at its address; choose "
          "another name, or wait until it is known to be gone",
          there->name, meeting_point_->place(), asked.names()));
    if (*answered)
      throw InvalidArgumentError(
          fmt::format("the name {} is taken: {} answers at its address. Give each worker a name of its own "
                      "(GRADWIRE_NAME or WorkerOptions::name) and each process its RANK",
                      me->name, asked.names()),
          there->name);
    before = std::move(there);
  }
  return before;
}

}  // namespace gradwire
