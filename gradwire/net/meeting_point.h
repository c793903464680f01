// The meeting point: a c10d store in which workers find each other's records. It says where to connect; who is there,
// the handshake proves. Running workers do not need it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "gradwire/net/record.h"

namespace gradwire::net {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

// A TCPStore that may be shared with torch's own process groups of this process; rank 0 holds it.
StorePointer open_tcp_store(const std::string& host, uint16_t port, bool holds_it, std::chrono::milliseconds timeout);
// A FileStore, for workers on one host.
StorePointer open_file_store(const std::string& path);

// Any thread may use it. Every call may wait for the store.
class MeetingPoint {
 public:
  explicit MeetingPoint(StorePointer store) : store_(std::move(store)) {}

  // Under its name, its rank and its incarnation.
  void publish(const Record& record);
  // Takes the name, if no one has it or `instead_of` has. Nothing if that worked; else the record that is there.
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
  // Those after the first `known`, which is then counted on.
  std::vector<Event> events_after(int64_t& known);
  // 0, 1, 2...: each once.
  int next_rank();
  // Notes that this rank is there (once, whatever its life), and waits until `count` ranks are; TimeoutError names
  // those that are not.
  void wait_for_ranks(int rank, int count, std::chrono::milliseconds timeout);
  // Wait until the record is there; TimeoutError names whom was waited for.
  Record find(const std::string& name, std::chrono::milliseconds timeout);
  Record find(int rank, std::chrono::milliseconds timeout);
  Record find(Incarnation incarnation, std::chrono::milliseconds timeout);

 private:
  std::optional<Record> look_up_key(const std::string& key, const std::string& whom);
  Record find_key(const std::string& key, const std::string& whom, std::chrono::milliseconds timeout);
  const StorePointer store_;
};

}  // namespace gradwire::net
