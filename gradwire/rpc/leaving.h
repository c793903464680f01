// How the members of a fixed group leave together: each serves until all living members have called `leave` and no call
// is under way between them.
//
// The living member of the lowest rank collects. Each member that leaves tells it, when it is idle, how many requests
// it has sent to and received from living members; when the sums over all are equal, and the same in two rounds in
// succession, nothing is under way (a request that was sent and not received, or a function that ran and sent further
// ones between the rounds, would show), and the collector ends the group. If it dies, the next one collects.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "gradwire/base/mutex.h"
#include "gradwire/rpc/calls.h"
#include "gradwire/rpc/exchange.h"
#include "gradwire/rpc/membership.h"

namespace gradwire {

// Any thread.
class Leaving : public std::enable_shared_from_this<Leaving> {
 public:
  // With its handlers in the exchange, from joining on: others may leave long before this worker does.
  static std::shared_ptr<Leaving> make(int rank, int world_size, std::shared_ptr<Exchange> exchange,
                                       std::shared_ptr<Membership> membership, std::shared_ptr<Calls> calls);

  // Returns when the group ends. Throws TimeoutError, which names those waited for; the worker serves on then.
  void leave(std::chrono::steady_clock::time_point deadline) GRADWIRE_EXCLUDES(mutex_, one_look_);
  // Whether the group has ended: all of its living members leave together.
  bool ended() GRADWIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return ended_;
  }

  // For tests: called by each report after it has read the round and before it reads the numbers.
  void pause_between_readings(std::function<void()> pause) GRADWIRE_EXCLUDES(mutex_, one_look_);

 private:
  Leaving(int rank, int world_size, std::shared_ptr<Exchange> exchange, std::shared_ptr<Membership> membership,
          std::shared_ptr<Calls> calls);
  using RecordPointer = Membership::RecordPointer;
  // What a member tells the collector.
  struct Report {
    uint64_t round = 0;
    bool idle = false;
    uint64_t calls = 0;
    uint64_t functions = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
  };

  // Something has changed: looks what is to be done, on one of Gradwire's threads.
  void look_soon() GRADWIRE_EXCLUDES(mutex_);
  void look() GRADWIRE_EXCLUDES(mutex_, one_look_);
  void report_to(const RecordPointer& collector) GRADWIRE_REQUIRES(one_look_) GRADWIRE_EXCLUDES(mutex_);
  void collect() GRADWIRE_REQUIRES(one_look_) GRADWIRE_EXCLUDES(mutex_);
  // The member of that rank, unless it is gone. May ask the meeting point.
  RecordPointer living(int rank) GRADWIRE_EXCLUDES(mutex_);
  std::string who_is_missing() GRADWIRE_EXCLUDES(mutex_);
  std::string ask_who_is_missing() GRADWIRE_EXCLUDES(mutex_);

  const int rank_;
  const int world_size_;
  const std::shared_ptr<Exchange> exchange_;
  const std::shared_ptr<Membership> membership_;
  const std::shared_ptr<Calls> calls_;

  // Before mutex_; held while the meeting point is asked.
  Mutex one_look_;
  uint64_t round_ GRADWIRE_GUARDED_BY(one_look_) = 0;  // as the collector
  std::optional<std::pair<uint64_t, uint64_t>> last_sums_ GRADWIRE_GUARDED_BY(one_look_);
  int rounds_without_end_ GRADWIRE_GUARDED_BY(one_look_) = 0;
  // As a member: what was told last, and to whom.
  Incarnation told_ GRADWIRE_GUARDED_BY(one_look_) = Incarnation::none;
  uint64_t told_round_ GRADWIRE_GUARDED_BY(one_look_) = 0;
  bool told_idle_ GRADWIRE_GUARDED_BY(one_look_) = false;
  std::function<void()> between_readings_ GRADWIRE_GUARDED_BY(one_look_);

  Mutex mutex_;
  Condition changed_;
  bool leaving_ GRADWIRE_GUARDED_BY(mutex_) = false;
  bool ended_ GRADWIRE_GUARDED_BY(mutex_) = false;
  bool look_posted_ GRADWIRE_GUARDED_BY(mutex_) = false;
  uint64_t asked_round_ GRADWIRE_GUARDED_BY(mutex_) = 0;  // by the collector
  std::map<int, RecordPointer> known_ GRADWIRE_GUARDED_BY(mutex_);
  std::set<Incarnation> gone_ GRADWIRE_GUARDED_BY(mutex_);
  std::map<Incarnation, Report> reports_ GRADWIRE_GUARDED_BY(mutex_);
  std::optional<std::string> answer_ GRADWIRE_GUARDED_BY(mutex_);  // to the question who is missing
};

}  // namespace gradwire
