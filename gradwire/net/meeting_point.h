// The meeting point: a c10d store in which workers find each other's records. It says where to connect; who is there,
// the handshake proves. Running workers do not need it.
//
// A store may outlive a group. So that a fixed group never mistakes the records of an earlier run for its own, it has a
// generation, and a new generation begins with empty keys: gradwire/group holds it and the record of the worker that
// joined last, and every worker that joins changes it by compare-and-set.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gradwire/net/questions.h"
#include "gradwire/net/record.h"
#include "gradwire/net/store.h"

namespace gradwire::net {

// Any thread may use it. Every call may wait for the store, and throws TimeoutError if it does not answer in ten
// seconds, or, while a worker joins, by that worker's deadline.
class MeetingPoint {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `place` is for people: where the store is.
  explicit MeetingPoint(StorePointer store, std::string place = "the store")
      : store_(std::move(store)), place_(std::move(place)) {}
  const std::string& place() const { return place_; }
  // While a worker joins; Time::max() afterwards.
  void keep_to(Time deadline) { deadline_ = deadline; }

  // Of a fixed group.
  struct Group {
    int64_t generation = 0;
    std::optional<Record> joined_last;
    bool operator==(const Group&) const = default;
  };
  Group group();
  // The group that is there afterwards: `next`, unless another worker changed it.
  Group replace_group(const Group& expected, const Group& next);
  // The next generation begins, empty, unless it has, or somebody else than `members` has joined this one last.
  void end_generation(const std::set<Incarnation>& members);
  // All that follows uses the keys of this generation. Call it before other threads use this object.
  void use_generation(int64_t generation) { generation_ = generation; }

  // Under its rank, if it has one: it is found from now on.
  void publish(const Record& record);
  // Takes the name, if no one has it or `instead_of` has, and is found under it. Nothing if that worked; else the
  // record that is there.
  std::optional<Record> claim_name(const Record& mine, const std::optional<Record>& instead_of);
  std::optional<Record> look_up(const std::string& name);
  std::optional<Record> look_up(int rank);

  // Who came and left, in order: everyone adds to it, and reads what is new.
  struct Event {
    // `said_gone`: a member found that it is gone. Like everything here, it may be untrue.
    enum class Kind : uint8_t { left, joined, said_gone };
    Kind kind = Kind::left;
    Record record;
  };
  void add_event(const Event& event);
  // Adds the event `said_gone`, unless another member has.
  void hint_gone(const Record& record);
  // How far a reader has come.
  class EventReader {
    friend class MeetingPoint;
    int64_t known_ = 0;
    // An event is counted before it is written. Those up to here were counted when one was first missed; what is
    // missing a second later is lost with its writer.
    int64_t counted_ = 0;
    Time missed_since_;
    int64_t malformed_ = 0;
    Time silent_until_;  // about malformed ones
  };
  // Those that are new. Never waits for one that is missing; what is malformed is logged and stepped over.
  std::vector<Event> new_events(EventReader& reader);

  // 0, 1, 2...: each once.
  int next_rank();
  // Waits until each rank from 0 to count - 1 has a record, be it that of an earlier process; logs now and then whom it
  // waits for. TimeoutError names those that are missing.
  void wait_for_ranks(const std::string& waiting, int count, Time deadline);

 private:
  // Nothing if there is no answer by the deadline.
  template <class Act>
  auto question(Time deadline, Act act);
  template <class Act>
  auto ask(Act act);
  template <class Act>
  auto ask_by(Time deadline, Act act);
  std::string key(const std::string& rest) const;
  std::optional<Record> look_up_key(const std::string& where);
  void read_event(EventReader& reader, const std::vector<uint8_t>& bytes, std::vector<Event>& events);

  const StorePointer store_;
  const std::string place_;
  std::atomic<Time> deadline_ = Time::max();
  std::atomic<int64_t> generation_ = 0;
  Questions questions_;
};

}  // namespace gradwire::net
