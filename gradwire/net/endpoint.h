// A worker's place in the network: it listens, knows its sessions, and makes them on first use.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "gradwire/base/mutex.h"
#include "gradwire/net/greeter.h"
#include "gradwire/net/session.h"

namespace gradwire::net {

// Any thread may use it.
class Endpoint : public std::enable_shared_from_this<Endpoint> {
 public:
  // Listens with the transport; `identity` needs a name, a rank and an incarnation, and gets its addresses here.
  static std::shared_ptr<Endpoint> open(SessionPlace place, Record identity, SessionOptions options);
  ~Endpoint();

  const Record& record() const { return record_; }

  // The session with that incarnation, made and dialled if there is none.
  // Throws PeerGoneError if one has ended, which is for good; once this is closed; and for a new one once this leaves.
  std::shared_ptr<Session> session(const Record& peer) GRADWIRE_EXCLUDES(mutex_);
  // Nothing if there is none that lives.
  std::shared_ptr<Session> find(Incarnation peer) GRADWIRE_EXCLUDES(mutex_);
  std::vector<std::shared_ptr<Session>> sessions() GRADWIRE_EXCLUDES(mutex_);

  // Says goodbye on every session, also on those that others begin meanwhile; `left` is called on the loop when all
  // have heard it, or are gone, or after `limit`. Once.
  void leave(Duration limit, std::function<void()> left) GRADWIRE_EXCLUDES(mutex_);
  // Stops listening and ends every session without a word: to the others it looks like a death.
  void close() GRADWIRE_EXCLUDES(mutex_);

 private:
  Endpoint(SessionPlace place, Record identity, SessionOptions options)
      : place_(std::move(place)), record_(std::move(identity)), options_(options) {}
  // Those who are yet to hear our goodbye.
  struct Farewell;
  // L3, as far as the fixed part of a Hello tells.
  std::optional<std::string> refusal(const Hello& fixed_part, size_t list_bytes) GRADWIRE_EXCLUDES(mutex_);
  void introduce(const std::shared_ptr<Channel>& channel, const Hello& hello) GRADWIRE_EXCLUDES(mutex_);
  void forget(const Record& peer, const PeerGoneError& error) GRADWIRE_EXCLUDES(mutex_);
  std::vector<std::shared_ptr<Session>> living() const GRADWIRE_REQUIRES(mutex_);

  // Constant after `open`.
  SessionPlace place_;
  Record record_;
  const SessionOptions options_;
  std::shared_ptr<Greeter> greeter_;  // used on the loop only

  RateLimitedLog other_versions_;
  Mutex mutex_;
  std::unordered_map<Incarnation, std::shared_ptr<Session>> sessions_ GRADWIRE_GUARDED_BY(mutex_);
  // What is kept of a session that has ended: nothing brings this incarnation back (L8).
  struct Ended {
    GoneReason reason;
    std::string text;
  };
  std::unordered_map<Incarnation, Ended> ended_ GRADWIRE_GUARDED_BY(mutex_);
  std::shared_ptr<Farewell> farewell_ GRADWIRE_GUARDED_BY(mutex_);  // since `leave`
  bool closed_ GRADWIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace gradwire::net
