// Who is in the group: what the meeting point says, and what sessions tell of those who are gone.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gradwire/base/error.h"
#include "gradwire/base/mutex.h"
#include "gradwire/net/endpoint.h"
#include "gradwire/net/meeting_point.h"
#include "gradwire/net/runtime.h"

namespace gradwire {

// Something that happened to a peer.
struct PeerEvent {
  enum class Kind { joined, left, died, fenced };
  Kind kind = Kind::joined;
  std::string name;
  int rank = -1;
};
std::string_view name_of(PeerEvent::Kind kind);

// Any thread. What asks the meeting point may wait for it.
class Membership : public std::enable_shared_from_this<Membership> {
 public:
  using RecordPointer = std::shared_ptr<const net::Record>;
  Membership(std::shared_ptr<net::MeetingPoint> meeting_point, std::shared_ptr<net::Runtime> runtime)
      : meeting_point_(std::move(meeting_point)), runtime_(std::move(runtime)) {}

  // Registers this worker. A name is taken while its registered incarnation answers at its address; otherwise this
  // worker replaces the record. Throws InvalidArgumentError if it is taken.
  void enter(const std::shared_ptr<net::Endpoint>& endpoint, std::chrono::milliseconds timeout);
  // Says that this worker is leaving, as far as the meeting point can be reached.
  void say_left() noexcept;

  // Throws NotFoundError, which lists who there is.
  RecordPointer find(const std::string& name) GRADWIRE_EXCLUDES(mutex_);
  RecordPointer find(int rank) GRADWIRE_EXCLUDES(mutex_);
  // Everyone who is there, as far as is known, this worker included; by rank.
  std::vector<RecordPointer> all() GRADWIRE_EXCLUDES(mutex_);

  // Called on Gradwire's threads for what happens from now on: at once for peers with a session, for others when
  // the meeting point was looked at again, which is several times a second.
  void watch(std::function<void(const PeerEvent&)> callback) GRADWIRE_EXCLUDES(mutex_);
  // No callback is running when this returns, unless it is called by one, and none runs afterwards.
  void stop_watching() GRADWIRE_EXCLUDES(mutex_);
  void peer_gone(const net::Record& peer, GoneReason reason) GRADWIRE_EXCLUDES(mutex_);

 private:
  void refresh() GRADWIRE_EXCLUDES(mutex_);
  void refresh_later();
  void report(const PeerEvent& event) GRADWIRE_EXCLUDES(mutex_);
  void report_all() GRADWIRE_EXCLUDES(mutex_);
  template <class Key>
  RecordPointer find_key(const Key& key, const std::string& whom) GRADWIRE_EXCLUDES(mutex_);
  RecordPointer mine() GRADWIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return mine_;
  }

  const std::shared_ptr<net::MeetingPoint> meeting_point_;
  const std::shared_ptr<net::Runtime> runtime_;
  std::atomic<bool> entered_ = false;

  Mutex refreshing_;  // one at a time; held while the meeting point is asked
  int64_t events_known_ GRADWIRE_GUARDED_BY(refreshing_) = 0;

  Mutex mutex_;
  RecordPointer mine_ GRADWIRE_GUARDED_BY(mutex_);  // functions may be called while it still enters
  std::map<std::string, RecordPointer, std::less<>> by_name_ GRADWIRE_GUARDED_BY(mutex_);
  std::set<Incarnation> gone_ GRADWIRE_GUARDED_BY(mutex_);
  std::vector<std::function<void(const PeerEvent&)>> callbacks_ GRADWIRE_GUARDED_BY(mutex_);
  std::deque<PeerEvent> to_report_ GRADWIRE_GUARDED_BY(mutex_);
  bool reporting_ GRADWIRE_GUARDED_BY(mutex_) = false;
  std::thread::id reporter_ GRADWIRE_GUARDED_BY(mutex_);
  Condition reported_;
};

}  // namespace gradwire
