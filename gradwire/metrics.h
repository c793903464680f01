// What a worker has done so far and has under way, in numbers.
//
//   std::cout << worker->metrics() << '\n';
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "gradwire/rpc/latency.h"

namespace gradwire {

struct Metrics {
  // Calls made from here.
  Latency calls;                 // those that are over, from their beginning to their answer
  uint64_t calls_failed = 0;     // without those that were cancelled
  uint64_t calls_cancelled = 0;  // by their owners, or because this worker left
  size_t calls_under_way = 0;
  // Functions that ran here for others.
  Latency functions;  // from their beginning to their answer
  Latency queued;     // before that
  size_t functions_running = 0;
  // To and from other workers, messages of all kinds, with their tensors.
  size_t peers = 0;
  uint64_t messages_sent = 0;
  uint64_t messages_received = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  size_t bytes_waiting = 0;  // kept until the peers have them
  // What is there now.
  size_t contexts = 0;
  size_t references_owned = 0;
  size_t references_held = 0;
  size_t threads = 0;  // of this process
};

std::string to_string(const Metrics& metrics);
std::ostream& operator<<(std::ostream& out, const Metrics& metrics);

}  // namespace gradwire
