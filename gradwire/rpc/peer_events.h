// Tells the program what happens to its peers: in order, one event at a time, on Gradwire's threads.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gradwire/base/mutex.h"
#include "gradwire/net/runtime.h"

namespace gradwire {

// Something that happened to a peer. A peer that left, died or was fenced was reported as joined before, unless it was
// there when the callback was set.
struct PeerEvent {
  enum class Kind { joined, left, died, fenced };
  Kind kind = Kind::joined;
  std::string name;
  int rank = -1;
};
std::string_view name_of(PeerEvent::Kind kind);

// Any thread.
class PeerEvents : public std::enable_shared_from_this<PeerEvents> {
 public:
  using Callback = std::function<void(const PeerEvent&)>;
  explicit PeerEvents(std::shared_ptr<net::Runtime> runtime) : runtime_(std::move(runtime)) {}

  // True for the first callback.
  bool watch(Callback callback) GRADWIRE_EXCLUDES(mutex_);
  bool watched() GRADWIRE_EXCLUDES(mutex_);
  // Does nothing while nobody watches.
  void report(const std::vector<PeerEvent>& events) GRADWIRE_EXCLUDES(mutex_);
  // No callback is running when this returns, unless one of them called it, and none begins afterwards.
  void stop() GRADWIRE_EXCLUDES(mutex_);

 private:
  void deliver() GRADWIRE_EXCLUDES(mutex_);
  bool stopped_since(uint64_t stops) GRADWIRE_EXCLUDES(mutex_);

  const std::shared_ptr<net::Runtime> runtime_;

  Mutex mutex_;
  std::vector<Callback> callbacks_ GRADWIRE_GUARDED_BY(mutex_);
  std::deque<PeerEvent> waiting_ GRADWIRE_GUARDED_BY(mutex_);
  bool delivering_ GRADWIRE_GUARDED_BY(mutex_) = false;
  std::thread::id deliverer_ GRADWIRE_GUARDED_BY(mutex_);
  uint64_t stops_ GRADWIRE_GUARDED_BY(mutex_) = 0;
  Condition delivered_;
};

}  // namespace gradwire
