// The deadlines of calls under way. Calls with the same timeout end in the order they began, so each timeout has a
// queue, whose head alone is looked at; taking a call out costs nothing.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "gradwire/net/loop.h"

namespace gradwire {

// Guarded by its owner.
class Deadlines {
 public:
  struct Entry {
    net::Time at;
    uint64_t call = 0;
  };
  using Queue = std::list<Entry>;
  struct Place {
    Queue* queue = nullptr;
    Queue::iterator entry;
    net::Duration timeout{};
  };

  Place add(net::Time now, net::Duration timeout, uint64_t call) {
    Queue& queue = queues_[timeout];
    queue.push_back({now + timeout, call});
    return {&queue, std::prev(queue.end()), timeout};
  }
  void remove(const Place& place) {
    place.queue->erase(place.entry);
    // The usual timeout's queue is empty between any two blocking calls: it is kept.
    if (place.queue->empty() && queues_.size() > 4) queues_.erase(place.timeout);
  }
  // The calls whose time is over; they stay until removed.
  std::vector<uint64_t> over(net::Time now) const {
    std::vector<uint64_t> calls;
    for (const auto& [timeout, queue] : queues_)
      for (const Entry& entry : queue) {
        if (entry.at > now) break;
        calls.push_back(entry.call);
      }
    return calls;
  }
  // Time::max() if there is none.
  net::Time next() const {
    net::Time earliest = net::Time::max();
    for (const auto& [timeout, queue] : queues_)
      if (!queue.empty()) earliest = std::min(earliest, queue.front().at);
    return earliest;
  }

 private:
  std::map<net::Duration, Queue> queues_;
};

}  // namespace gradwire
