// The meeting point: a c10d store in which workers find each other's records. It says where to connect; who is there,
// the handshake proves. Running workers do not need it.
#pragma once

#include <chrono>
#include <memory>
#include <string>

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
  // Wait until the record is there; TimeoutError names whom was waited for.
  Record find(const std::string& name, std::chrono::milliseconds timeout);
  Record find(int rank, std::chrono::milliseconds timeout);
  Record find(Incarnation incarnation, std::chrono::milliseconds timeout);

  // Counts this worker, and waits until `count` have been counted under that key.
  void gather(const std::string& key, int count, std::chrono::milliseconds timeout);

 private:
  Record find_key(const std::string& key, const std::string& whom, std::chrono::milliseconds timeout);
  const StorePointer store_;
};

}  // namespace gradwire::net
