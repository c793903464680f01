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

// Dials workers, to learn whether they live.
class Roll {
 public:
  explicit Roll(net::Endpoint& endpoint) : endpoint_(endpoint) {}

  // Each incarnation is dialled once.
  void call(const net::Record& record) {
    if (!called_.emplace(record.incarnation, Called{to_string(record), nullptr}).second) return;
    std::shared_ptr<net::Session>& session = called_.at(record.incarnation).session;
    try {
      session = endpoint_.session(record);
    } catch (const PeerGoneError&) {
      // It was here before, and is gone.
      MutexLock lock(answers_->mutex);
      answers_->heard.emplace(record.incarnation, net::Answer::gone);
      return;
    }
    session->when_answered([answers = answers_, incarnation = record.incarnation](net::Answer answer) {
      MutexLock lock(answers->mutex);
      answers->heard.emplace(incarnation, answer);
      answers->changed.notify_all();
    });
  }
  // Waits until `only` has answered (or, without it, any of those called), or all are known to be gone or unreachable.
  // One of which nothing is known by the deadline counts as unreachable.
  net::Answer wait(Clock::time_point deadline, std::optional<Incarnation> only = {}) {
    const net::Threads::Blocked blocked;
    MutexLock lock(answers_->mutex);
    for (;;) {
      bool all_heard = true, unreachable = false;
      for (const auto& [incarnation, called] : called_) {
        if (only && incarnation != *only) continue;
        const auto heard = answers_->heard.find(incarnation);
        if (heard != answers_->heard.end() && heard->second == net::Answer::there) return net::Answer::there;
        all_heard = all_heard && heard != answers_->heard.end();
        unreachable = unreachable || heard == answers_->heard.end() || heard->second == net::Answer::unreachable;
      }
      if (all_heard || Clock::now() >= deadline) return unreachable ? net::Answer::unreachable : net::Answer::gone;
      lock.wait_until(answers_->changed, deadline);
    }
  }
  // For people: who they are, and why those that could not be dialled could not.
  std::string names(std::optional<Incarnation> only = {}) const {
    std::vector<std::string> names;
    for (const auto& [incarnation, called] : called_) {
      if (only && incarnation != *only) continue;
      const std::string why = called.session ? called.session->dial_failure() : "";
      names.push_back(why.empty() ? called.name : fmt::format("{} ({})", called.name, why));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }

 private:
  struct Called {
    std::string name;
    std::shared_ptr<net::Session> session;
  };
  // Sessions tell it, also when nobody waits any more.
  struct Answers {
    Mutex mutex;
    std::map<Incarnation, net::Answer> heard GRADWIRE_GUARDED_BY(mutex);
    Condition changed;
  };
  net::Endpoint& endpoint_;
  const std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  std::map<Incarnation, Called> called_;
};

// The group to join: the one in the store, if it is empty or one of its members answers; else a new one.
net::MeetingPoint::Group choose_generation(net::MeetingPoint& meeting_point, Roll& roll, int world_size,
                                           net::Time deadline) {
  for (;;) {
    const net::MeetingPoint::Group group = meeting_point.group();
    meeting_point.use_generation(group.generation);
    if (!group.joined_last) return group;
    roll.call(*group.joined_last);
    net::Answer answer = roll.wait(std::min<net::Time>(deadline, Clock::now() + head_start));
    for (int rank = 0; rank < world_size && answer != net::Answer::there; ++rank)
      if (const std::optional<net::Record> member = meeting_point.look_up(rank)) {
        roll.call(*member);
        answer = roll.wait(std::min<net::Time>(deadline, Clock::now() + head_start));
      }
    if (answer != net::Answer::there) answer = roll.wait(deadline);
    if (answer == net::Answer::there) return group;
    if (answer == net::Answer::unreachable)
      throw TimeoutError(fmt::format(
          "{} has a group whose workers neither answer nor refuse at their addresses: {}. If they belong to "
          "an earlier run, choose another store, or remove this one",
          meeting_point.place(), roll.names()));
    const net::MeetingPoint::Group next{.generation = group.generation + 1};
    if (meeting_point.replace_group(group, next) == next)
      LOG(WARNING) << fmt::format(
          "gradwire: {} holds the records of an earlier run, and none of its workers answers ({}): a new group begins "
          "there",
          meeting_point.place(), roll.names());
  }
}

// Returns the record of the worker that had the name before, and is gone.
std::optional<net::Record> claim_name(net::MeetingPoint& meeting_point, Roll& roll, const net::Record& me,
                                      net::Time deadline) {
  std::optional<net::Record> before;
  while (std::optional<net::Record> there = meeting_point.claim_name(me, before)) {
    roll.call(*there);
    const net::Answer answer = roll.wait(deadline, there->incarnation);
    if (answer == net::Answer::unreachable)
      throw TimeoutError(fmt::format(
          "the name {} is registered in {} for {}, which neither answers nor refuses at its address; choose "
          "another name, or let this worker reach that one",
          there->name, meeting_point.place(), roll.names(there->incarnation)));
    if (answer == net::Answer::there)
      throw InvalidArgumentError(
          fmt::format("the name {} is taken: {} answers at its address. Give each worker a name of its own "
                      "(GRADWIRE_NAME or WorkerOptions::name) and each process its RANK",
                      me.name, roll.names(there->incarnation)),
          there->name);
    before = std::move(there);
  }
  return before;
}

}  // namespace

void Membership::enter(const std::shared_ptr<net::Endpoint>& endpoint, std::optional<int> world_size,
                       net::Time deadline) {
  const RecordPointer me(endpoint, &endpoint->record());
  {
    MutexLock lock(mutex_);
    mine_ = me;
  }
  for (bool entered = false; !entered;) {
    Roll roll(*endpoint);
    net::MeetingPoint::Group group;
    if (world_size) group = choose_generation(*meeting_point_, roll, *world_size, deadline);
    // A member that never met its earlier life hears that this one is gone before it hears of the new one.
    if (const std::optional<net::Record> before = claim_name(*meeting_point_, roll, *me, deadline))
      meeting_point_->hint_gone(*before);
    // In this order: a worker that finds all ranks knows of all members. Should this fail, it says that it leaves.
    entered_ = true;
    meeting_point_->add_event({.kind = net::MeetingPoint::Event::Kind::joined, .record = *me});
    meeting_point_->publish(*me);
    entered = !world_size;
    // A worker that takes this group for one of an earlier run now finds this one, or fails to replace the group.
    while (!entered) {
      const net::MeetingPoint::Group next{group.generation, *me};
      const net::MeetingPoint::Group there = meeting_point_->replace_group(group, next);
      entered = there == next;
      if (there.generation != group.generation) break;
      group = there;
    }
  }
}

}  // namespace gradwire
