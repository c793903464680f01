// Who is in the group: what the meeting point says, and what sessions tell of peers that are gone.
//
// A death that one member finds becomes known to all: the finder tells the peers that it has sessions with, and writes
// a hint to the meeting point for the others. A hint proves nothing, and neither does an event "left" in the store,
// which anyone may have written: a member that learns of one dials that incarnation at the address that it knows
// itself, and the session decides (L8). The store only says why: a worker that left has said so there.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gradwire/base/error.h"
#include "gradwire/base/mutex.h"
#include "gradwire/net/endpoint.h"
#include "gradwire/net/meeting_point.h"
#include "gradwire/net/runtime.h"
#include "gradwire/rpc/exchange.h"
#include "gradwire/rpc/peer_events.h"

namespace gradwire {

// Any thread. What asks the meeting point may wait for it.
class Membership : public std::enable_shared_from_this<Membership> {
 public:
  using RecordPointer = std::shared_ptr<const net::Record>;
  // With its handlers in the exchange.
  static std::shared_ptr<Membership> make(std::shared_ptr<net::MeetingPoint> meeting_point,
                                          std::shared_ptr<net::Runtime> runtime, std::shared_ptr<Exchange> exchange);

  // Registers this worker. A name is taken while its registered incarnation answers at its address; otherwise this
  // worker replaces the record. A fixed group (with its size) of which nobody answers is one of an earlier run: then a
  // new one begins. Throws InvalidArgumentError if the name is taken, TimeoutError.
  void enter(const std::shared_ptr<net::Endpoint>& endpoint, std::optional<int> world_size, net::Time deadline);
  // This worker and these members leave a fixed group, together: a worker that joins from now on begins a new group,
  // unless another one has joined just before.
  void end_group(std::set<Incarnation> members) noexcept;
  // Says that this worker is leaving, as far as the meeting point can be reached.
  void say_left() noexcept;

  // A peer without a session is looked up anew: it may have been started again. Throws PeerGoneError for one that is
  // gone and did not come back, NotFoundError, which lists who is there, for one that never was.
  RecordPointer find(const std::string& name) GRADWIRE_EXCLUDES(mutex_);
  RecordPointer find(int rank) GRADWIRE_EXCLUDES(mutex_);
  // Waits until a worker of this name is there. Throws TimeoutError; CancelledError in a function that is cancelled.
  RecordPointer wait_for(const std::string& name, std::chrono::milliseconds timeout) GRADWIRE_EXCLUDES(mutex_);
  // All workers that are there, as far as is known, this one included; by rank.
  std::vector<RecordPointer> all() GRADWIRE_EXCLUDES(mutex_);

  // For what happens from now on: at once for peers with a session, for others when the meeting point was looked at
  // again, which is several times a second.
  void watch(PeerEvents::Callback callback) GRADWIRE_EXCLUDES(mutex_);
  // No callback is running when this returns, unless it is called by one, and none begins afterwards. Others are told
  // nothing more.
  void close();

 private:
  Membership(std::shared_ptr<net::MeetingPoint> meeting_point, std::shared_ptr<net::Runtime> runtime,
             std::shared_ptr<Exchange> exchange);

  void peer_gone(const net::Record& peer, GoneReason reason) GRADWIRE_EXCLUDES(mutex_);
  void hint_arrived(Incarnation suspect) GRADWIRE_EXCLUDES(mutex_);
  // Reads the events that are new at the meeting point.
  void refresh() GRADWIRE_EXCLUDES(mutex_);
  void refresh_later();
  void refresh_quietly() noexcept GRADWIRE_EXCLUDES(mutex_);
  // Remembers what was heard. False if it was heard before.
  bool suspect(const net::Record& member) GRADWIRE_REQUIRES(mutex_);
  // Dials a worker that is said to be gone.
  void verify(const RecordPointer& suspected) GRADWIRE_EXCLUDES(mutex_);
  void proved_alive(Incarnation suspected) GRADWIRE_EXCLUDES(mutex_);
  // Tells the others of a death: all of them, or, if this worker heard of it, the meeting point alone.
  void spread(const net::Record& dead, bool by_hearsay) noexcept;
  void report_joined(const net::Record& record) GRADWIRE_REQUIRES(mutex_);
  // And then the life that has come in its place, if that waited for this.
  void report_gone(const net::Record& peer) GRADWIRE_EXCLUDES(mutex_);
  void wait_for_verdicts() GRADWIRE_EXCLUDES(mutex_);

  template <class Key>
  RecordPointer find_known(const Key& key, RecordPointer known, const std::string& whom) GRADWIRE_EXCLUDES(mutex_);
  std::optional<net::Record> look_up(const std::string& name) { return meeting_point_->look_up(name); }
  // The record under the rank may be that of an earlier life: the one under the name is the newest.
  std::optional<net::Record> look_up(int rank);
  RecordPointer known_by(Incarnation incarnation) GRADWIRE_REQUIRES(mutex_);
  RecordPointer replaced_by(const net::Record& record) GRADWIRE_REQUIRES(mutex_);
  // Writes down that it is there. False if it is known to be gone.
  bool note(const RecordPointer& record) GRADWIRE_REQUIRES(mutex_);
  RecordPointer mine() GRADWIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return mine_;
  }

  // What a finder tells its peers.
  static constexpr net::MessageType gone_type{28};

  const std::shared_ptr<net::MeetingPoint> meeting_point_;
  const std::shared_ptr<net::Runtime> runtime_;
  const std::shared_ptr<Exchange> exchange_;
  const std::shared_ptr<PeerEvents> events_;
  std::atomic<bool> entered_ = false;
  std::atomic<bool> closed_ = false;

  Mutex refreshing_;  // one at a time; held while the meeting point is asked
  net::MeetingPoint::EventReader event_reader_ GRADWIRE_GUARDED_BY(refreshing_);
  std::atomic<net::Time> quiet_until_{};  // after the meeting point did not answer

  // What was heard of a worker, until it is reported as gone.
  struct Suspicion {
    net::Time until;  // `all` waits so long for the verdict
    std::string name;
    bool said_left = false;
    bool answered = false;                   // it lived after it was suspected
    std::optional<net::Record> successor{};  // has its name, and is reported after its end
  };

  Mutex mutex_;
  RecordPointer mine_ GRADWIRE_GUARDED_BY(mutex_);  // functions may be called while it still enters
  std::map<std::string, RecordPointer, std::less<>> by_name_ GRADWIRE_GUARDED_BY(mutex_);
  std::map<Incarnation, GoneReason> gone_ GRADWIRE_GUARDED_BY(mutex_);
  std::map<Incarnation, Suspicion> suspects_ GRADWIRE_GUARDED_BY(mutex_);
  std::set<Incarnation> told_ GRADWIRE_GUARDED_BY(mutex_);  // whose coming was reported, or was before anybody watched
  Condition verdict_;
};

}  // namespace gradwire
