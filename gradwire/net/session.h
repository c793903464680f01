// A session: messages between two incarnations, each exactly once and in order, over one link at a time that may break
// and be made anew.
//
//   S1  every message is delivered exactly once and in order, over any number of broken links
//   S2  a peer's death is announced once, and nothing of that incarnation is delivered after it
//   S3  memory is bounded: only messages that say so wait for room
//   S4  a large transfer does not hold up small messages
//
// How links are chosen, resumed and given up follows rules L1-L9 of docs/protocol.md; models/session.pml checks them,
// and the rule's name stands where the code obeys it.
//
// Locks, in this order: order_ (one message is handled at a time; links change), then state_ (what is to be written).
// The handler is called with order_ held: it may send on any session, and must not wait.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gradwire/base/error.h"
#include "gradwire/base/mutex.h"
#include "gradwire/base/rate_limited_log.h"
#include "gradwire/net/channel.h"
#include "gradwire/net/inbox.h"
#include "gradwire/net/outbox.h"
#include "gradwire/net/transport.h"
#include "gradwire/net/waker.h"

namespace gradwire::net {

class Session;

// What a peer that was dialled has shown of itself.
enum class Answer : uint8_t {
  there,        // it answered
  gone,         // nobody listens at its address any more, or only another incarnation does, or it was silent too long
  unreachable,  // it cannot be dialled from here, and did not come: it may well live
};

// What the layer above does with what arrives. Brief, never waits.
class SessionHandler {
 public:
  virtual ~SessionHandler() = default;
  // In order, exactly once (S1), by whichever thread reads the link. What it throws ends the session.
  virtual void message_arrived(Session& session, Delivery delivery) = 0;
  // Once; nothing arrives after it (S2).
  virtual void peer_gone(Session& session, GoneReason reason, const std::string& why) noexcept = 0;
};

// A sender takes the peer's `inbox` to be like its own, and refuses what the peer would refuse.
struct SessionOptions {
  // Silence after which a peer counts as dead.
  Duration peer_timeout = std::chrono::seconds(30);
  // Bytes kept unacknowledged before requests wait.
  size_t max_outgoing_bytes = size_t{256} << 20U;
  InboxLimits inbox;
  // Shared memory for large tensors, where the peer is on this host.
  bool segments = true;
};

// What peers do wrong is said once a second for each kind, whatever their number.
struct SessionLogs {
  RateLimitedLog turned_away;
  RateLimitedLog malformed;
  RateLimitedLog gaps;
};

// What a session needs from its surroundings.
struct SessionPlace {
  std::shared_ptr<Loop> loop;
  std::shared_ptr<Transport> transport;
  std::shared_ptr<SegmentBudget> budget;
  std::shared_ptr<Blocks> blocks;           // an endpoint makes its own if there are none
  std::shared_ptr<ArrivalBudget> arrivals;  // of all sessions; an endpoint makes its own if there is none
  std::weak_ptr<SessionHandler> handler;
  std::shared_ptr<SessionLogs> logs{};  // an endpoint makes them if there are none
  // Called in front of the handler's `peer_gone`, under the session's lock: its endpoint forgets the session.
  std::function<void(const Record& peer, const PeerGoneError& error)> forget{};
};

// Any thread may use it.
class Session : public std::enable_shared_from_this<Session> {
 public:
  static std::shared_ptr<Session> make(SessionPlace place, Record mine, Record peer, SessionOptions options);
  // Dials, if there is no link: for a session that was not made by the peer's dial.
  void dial() GRADWIRE_EXCLUDES(order_, state_);

  const Record& peer() const { return *peer_; }
  // For those who need to know the peer longer than they need the session.
  const std::shared_ptr<const Record>& peer_record() const { return peer_; }

  // Queues a message; it owns a copy of its tensors when this returns. The result, given to `wait_for_room`, waits
  // until the message was admitted. Throws PeerGoneError, InvalidArgumentError, and OverloadedError for a message that
  // is too large for its receiver.
  uint64_t send(Message message, Admission admission, Writing writing = Writing::soon) GRADWIRE_EXCLUDES(state_);
  // Waits until the message is admitted. False when the deadline came first (it stays queued).
  bool wait_for_room(uint64_t place_in_queue, Time deadline) GRADWIRE_EXCLUDES(state_);
  // Writes what is queued, as far as the link takes it.
  void flush() GRADWIRE_EXCLUDES(state_);

  // For a user's thread that waits for something this session brings: reads the link itself until `done` says so or the
  // deadline is over. Whoever makes `done` true on another thread then wakes the waker. Returns the last `done()`.
  bool wait(Waker& waker, const std::function<bool()>& done, Time deadline) GRADWIRE_EXCLUDES(order_, state_);

  // Says goodbye (L9): `left` is called once, on the loop, when the peer has heard it or is gone, or after `limit`.
  void leave(Duration limit, std::function<void()> left) GRADWIRE_EXCLUDES(order_, state_);
  // Ends it here and now; the handler hears of it. For an endpoint that closes.
  void end_now(GoneReason reason, const std::string& why) GRADWIRE_EXCLUDES(order_, state_);

  // L3, as far as the fixed part of a Hello tells: the frame that answers it, or nothing if its lists, of so many
  // bytes, are to be read too. Called by the loop.
  std::optional<std::string> refusal(const Hello& fixed_part, size_t list_bytes) GRADWIRE_EXCLUDES(order_, state_);
  // The same for the first Hello of an incarnation, which has no session here.
  static std::optional<std::string> refusal_of_first(const Hello& fixed_part, size_t list_bytes);
  // A link on which the peer's Hello was read (L3). Called by the loop.
  void accept(std::shared_ptr<Channel> channel, const Hello& hello) GRADWIRE_EXCLUDES(order_, state_);

  bool ended() const { return ended_; }
  // Called once: when there is a link, or when the session has ended before there was one. At once if that is known;
  // else with the session's lock held, so it must be brief, and must not use the session.
  void when_answered(std::function<void(Answer)> told) GRADWIRE_EXCLUDES(order_);
  // Why the last dial failed, for people; empty if it did not.
  std::string dial_failure() GRADWIRE_EXCLUDES(order_);

  struct Statistics {
    uint64_t handled = 0;
    uint64_t sent = 0;
    uint64_t bytes_received = 0;
    uint64_t bytes_sent = 0;
    size_t held_bytes = 0;
    size_t segment_bytes = 0;
    size_t segments_lent = 0;
    uint64_t links = 0;
    uint64_t dials = 0;
    bool linked = false;
  };
  Statistics statistics() GRADWIRE_EXCLUDES(order_, state_);
  // Breaks the current link, as a network would.
  void break_link() GRADWIRE_EXCLUDES(order_, state_);

 private:
  Session(SessionPlace place, Record mine, Record peer, SessionOptions options);

  // (attempt, dialler's incarnation), in that order.
  struct Rank {
    uint64_t attempt = 0;
    Incarnation dialler = Incarnation::none;
    auto operator<=>(const Rank&) const = default;
  };
  struct Dial {
    std::shared_ptr<Channel> channel;  // none while connecting
    Batch hello;                       // what is not yet written of it
    uint64_t attempt = 0;
  };

  // Dialling and adopting.
  void dial_if_needed() GRADWIRE_REQUIRES(order_);
  void dial_later() GRADWIRE_REQUIRES(order_);
  void dial_again() GRADWIRE_EXCLUDES(order_);
  void dialled(uint64_t generation, const DialResult& result) GRADWIRE_EXCLUDES(order_);
  void write_hello() GRADWIRE_REQUIRES(order_);
  void dial_answered(const Channel::Event& event) GRADWIRE_REQUIRES(order_);
  void dial_timed_out(uint64_t generation) GRADWIRE_EXCLUDES(order_);
  std::optional<std::string> check(const Hello& hello, size_t list_bytes) GRADWIRE_REQUIRES(order_)
      GRADWIRE_EXCLUDES(state_);
  Hello sample(const Link& link, uint64_t attempt) const GRADWIRE_REQUIRES(order_);
  void adopt(std::shared_ptr<Channel> channel, const Hello& hello, std::string own_hello) GRADWIRE_REQUIRES(order_);
  void stop_link() GRADWIRE_REQUIRES(order_) GRADWIRE_EXCLUDES(state_);
  void stop_dial() GRADWIRE_REQUIRES(order_);
  void watch(const std::shared_ptr<Channel>& channel) GRADWIRE_REQUIRES(order_);
  bool owns(const Channel* channel) const GRADWIRE_REQUIRES(order_);

  // Reading.
  class ReaderLease;
  // Handles what is there. False if there was nothing. Nothing that goes wrong leaves it: it ends the link or the
  // session.
  bool read(const std::shared_ptr<Channel>& channel) noexcept GRADWIRE_EXCLUDES(order_, state_);
  bool read_some(const std::shared_ptr<Channel>& channel) GRADWIRE_EXCLUDES(order_, state_);
  void reading_failed(const std::shared_ptr<Channel>& channel, const std::string& what) noexcept
      GRADWIRE_EXCLUDES(order_, state_);
  void handle_events(const std::shared_ptr<Channel>& channel, SessionHandler* handler) GRADWIRE_REQUIRES(order_);
  void handle_frame(const std::shared_ptr<Channel>& channel, const Channel::Event& event, SessionHandler* handler)
      GRADWIRE_REQUIRES(order_);
  void handle_message(const Channel::Event& event, SessionHandler* handler) GRADWIRE_REQUIRES(order_);
  // Every frame carries one. False if the session has ended by it.
  bool handle_acknowledgement(uint64_t number) GRADWIRE_REQUIRES(order_) GRADWIRE_EXCLUDES(state_);
  void gap(const std::string& what) GRADWIRE_REQUIRES(order_);
  void bad_bytes(const std::shared_ptr<Channel>& channel, const std::string& what) GRADWIRE_REQUIRES(order_);
  // What was read could not be handled; the second time for the same message ends the session.
  void give_link_up(const std::shared_ptr<Channel>& channel, std::string_view fault, const std::string& what)
      GRADWIRE_REQUIRES(order_);
  void link_lost(const std::shared_ptr<Channel>& channel, const std::string& why) GRADWIRE_REQUIRES(order_);
  void heard() GRADWIRE_REQUIRES(order_);

  // Writing.
  // A frame of the session's own. False, and not added, if the peer lets them pile up.
  bool add_control(FrameKind kind, uint64_t number = 0, std::string_view payload = {}) GRADWIRE_EXCLUDES(state_);
  void answer(FrameKind kind, uint64_t number = 0, std::string_view payload = {}) GRADWIRE_EXCLUDES(state_);
  void acknowledge_soon() GRADWIRE_EXCLUDES(state_);
  void acknowledge_now() GRADWIRE_EXCLUDES(state_);
  void write_more(const std::shared_ptr<Channel>& channel) GRADWIRE_EXCLUDES(order_, state_);
  void send_frees() GRADWIRE_EXCLUDES(state_);
  void send_control(MessageType type, const std::vector<uint64_t>& ids) GRADWIRE_EXCLUDES(state_);
  void write_last(std::string frame) GRADWIRE_REQUIRES(order_) GRADWIRE_EXCLUDES(state_);

  // With a timer, once `acknowledgement_timed_` is set.
  void acknowledge_later() GRADWIRE_EXCLUDES(state_);
  // Ending.
  void say_goodbye_if_due() GRADWIRE_REQUIRES(state_);
  bool goodbye_heard() const GRADWIRE_REQUIRES(state_);
  void end(GoneReason reason, const std::string& why, Answer answer = Answer::gone) GRADWIRE_REQUIRES(order_)
      GRADWIRE_EXCLUDES(state_);
  void tell_answered(Answer answer) GRADWIRE_REQUIRES(order_);
  void tick(Time expected) GRADWIRE_EXCLUDES(order_, state_);
  PeerGoneError gone() const GRADWIRE_REQUIRES(state_);
  void log_limited(RateLimitedLog& log, const std::string& line) const;

  // A callback that does nothing once the session is gone.
  template <class... Arguments, class Member>
  auto weakly(Member member, Arguments... arguments) {
    return [weak = weak_from_this(), member, ... arguments = std::move(arguments)](auto&&... more) {
      if (std::shared_ptr<Session> self = weak.lock())
        ((*self).*member)(arguments..., std::forward<decltype(more)>(more)...);
    };
  }

  // Constant after construction.
  const SessionPlace place_;
  const Record mine_;
  const std::shared_ptr<const Record> peer_;
  const SessionOptions options_;
  const std::shared_ptr<FreeList> frees_;
  const std::shared_ptr<SegmentPool> pool_;

  std::atomic<bool> ended_ = false;
  std::atomic<uint64_t> handled_ = 0;
  // Whether large tensors go in segments now: a guess until the first Hello.
  std::atomic<bool> segments_usable_;
  // Passing them failed, here or there: from the next link on there are none.
  std::atomic<bool> descriptors_failed_ = false;

  Mutex order_;
  std::shared_ptr<Channel> current_ GRADWIRE_GUARDED_BY(order_);
  std::unique_ptr<Dial> dial_ GRADWIRE_GUARDED_BY(order_);
  uint64_t dial_generation_ GRADWIRE_GUARDED_BY(order_) = 0;
  bool waiting_for_peer_ GRADWIRE_GUARDED_BY(order_) = false;  // after Refused (L4)
  bool dial_scheduled_ GRADWIRE_GUARDED_BY(order_) = false;
  Rank top_ GRADWIRE_GUARDED_BY(order_);
  uint64_t refused_attempt_ GRADWIRE_GUARDED_BY(order_) = 0;
  unsigned failed_dials_ GRADWIRE_GUARDED_BY(order_) = 0;
  std::string dial_failure_ GRADWIRE_GUARDED_BY(order_);
  bool dial_impossible_ GRADWIRE_GUARDED_BY(order_) = false;  // and nothing of it was tried
  std::optional<Time> unreachable_since_ GRADWIRE_GUARDED_BY(order_);
  Inbox inbox_ GRADWIRE_GUARDED_BY(order_);
  uint64_t bad_number_ GRADWIRE_GUARDED_BY(order_) = 0;
  bool reader_claimed_ GRADWIRE_GUARDED_BY(order_) = false;
  Time last_heard_ GRADWIRE_GUARDED_BY(order_);
  Time last_pinged_ GRADWIRE_GUARDED_BY(order_);
  std::vector<std::function<void(Answer)>> when_answered_ GRADWIRE_GUARDED_BY(order_);
  Answer last_answer_ GRADWIRE_GUARDED_BY(order_) = Answer::gone;  // of a session that has ended
  uint64_t links_ GRADWIRE_GUARDED_BY(order_) = 0;
  uint64_t dials_ GRADWIRE_GUARDED_BY(order_) = 0;

  Mutex state_;
  Outbox outbox_ GRADWIRE_GUARDED_BY(state_);
  std::shared_ptr<Link> sending_ GRADWIRE_GUARDED_BY(state_);
  Batch batch_;  // used by the thread that set writing_, or under state_ while it is not set
  std::string control_ GRADWIRE_GUARDED_BY(state_);
  bool writing_ GRADWIRE_GUARDED_BY(state_) = false;
  bool blocked_ GRADWIRE_GUARDED_BY(state_) = false;
  bool flush_posted_ GRADWIRE_GUARDED_BY(state_) = false;
  bool acknowledgement_due_ GRADWIRE_GUARDED_BY(state_) = false;
  bool acknowledgement_timed_ GRADWIRE_GUARDED_BY(state_) = false;
  uint64_t acknowledged_to_peer_ GRADWIRE_GUARDED_BY(state_) = 0;
  Condition written_;
  Condition room_;
  GoneReason gone_reason_ GRADWIRE_GUARDED_BY(state_) = GoneReason::died;
  std::string gone_why_ GRADWIRE_GUARDED_BY(state_);
  bool leaving_ GRADWIRE_GUARDED_BY(state_) = false;
  uint64_t goodbye_number_ GRADWIRE_GUARDED_BY(state_) = 0;
  std::function<void()> left_ GRADWIRE_GUARDED_BY(state_);
};

}  // namespace gradwire::net
