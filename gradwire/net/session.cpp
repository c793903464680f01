// Sending, waiting and ending. For links see session_links.cpp, for what arrives session_reading.cpp.
#include "gradwire/net/session.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>

namespace gradwire::net {
namespace {

constexpr Duration acknowledgement_delay = std::chrono::milliseconds(5);
constexpr Duration segment_idle_time = std::chrono::seconds(10);
// Of frames of the session's own that wait to be written: no honest peer asks for so much while it does not read.
constexpr size_t most_control_bytes = size_t{1} << 20U;

}  // namespace

std::shared_ptr<Session> Session::make(SessionPlace place, Record mine, Record peer, SessionOptions options) {
  std::shared_ptr<Session> session(new Session(std::move(place), std::move(mine), std::move(peer), options));
  session->frees_->when_first(
      [loop = session->place_.loop, send = session->weakly(&Session::send_frees)] { loop->post(send); });
  const Duration period = options.peer_timeout / 8;
  session->place_.loop->after(period, session->weakly(&Session::tick, session->place_.loop->now() + period));
  return session;
}

Session::Session(SessionPlace place, Record mine, Record peer, SessionOptions options)
    : place_(std::move(place)),
      mine_(std::move(mine)),
      peer_(std::make_shared<const Record>(std::move(peer))),
      options_(options),
      frees_(std::make_shared<FreeList>()),
      pool_(std::make_shared<SegmentPool>(place_.budget)),
      segments_usable_(options.segments && mine_.host == peer_->host && mine_.user == peer_->user),
      inbox_(options.inbox, frees_, place_.blocks, place_.arrivals),
      last_heard_(place_.loop->now()),
      last_pinged_(last_heard_),
      outbox_(options.max_outgoing_bytes) {}

uint64_t Session::send(Message message, Admission admission, Writing writing) {
  if (ended_) {
    MutexLock lock(state_);
    throw gone();
  }
  // The bound is the receiver's, which is taken to be the same as here. Copying so much first would take long.
  const size_t largest = options_.inbox.largest_message;
  if (const uint64_t bytes = bytes_to_send(message.payload); bytes > largest)
    throw OverloadedError(
        fmt::format("a message of {} bytes to {}: {} is the most that a worker takes at once; send it in parts", bytes,
                    peer_->name, largest),
        peer_->name);
  std::function<std::string()> board = std::move(message.board);
  const auto outgoing = std::make_shared<Outgoing>();
  uint64_t place_in_queue;
  bool write_now = false;
  bool post = false;
  bool time_it = false;
  try {
    // Copying large tensors takes long: before any lock.
    encode_message(*outgoing, std::move(message), segments_usable_ ? pool_.get() : nullptr, *place_.blocks);
    MutexLock lock(state_);
    if (ended_) throw gone();
    // The link may have become one without descriptors since the message was encoded.
    if (!segments_usable_ && !outgoing->loans.empty()) outgoing->stream_from_segments(*pool_);
    if (board) {
      outgoing->board(board());
      outgoing->passengers = std::move(board);
    }
    // On a quiet link this thread writes: no hand-over. Behind messages that are still on their way, several are
    // worth one system call: the loop writes them, or whoever begins to wait for an answer.
    write_now = outbox_.idle() && !flush_posted_ && writing == Writing::soon;
    place_in_queue = outbox_.push(outgoing, admission);
    if (writing == Writing::later && !acknowledgement_timed_) time_it = acknowledgement_timed_ = true;
    if (writing == Writing::soon && !write_now && !flush_posted_ && !writing_ && !blocked_ && sending_)
      post = flush_posted_ = true;
  } catch (...) {
    for (const Outgoing::Loan& loan : outgoing->loans) pool_->take_back(loan.segment->id(), place_.loop->now());
    throw;
  }
  // The message is queued: nothing that goes wrong from here on may look as if it were not.
  if (time_it) acknowledge_later();
  if (post) try {
      place_.loop->post(weakly(&Session::flush));
    } catch (const std::exception&) {
      write_now = true;  // no memory for a task
    }
  if (write_now) flush();
  return place_in_queue;
}

bool Session::wait_for_room(uint64_t place_in_queue, Time deadline) {
  MutexLock lock(state_);
  while (outbox_.admitted() < place_in_queue) {
    if (deadline == Time::max())
      lock.wait(room_);
    else if (std::chrono::steady_clock::now() >= deadline)
      return false;
    else
      lock.wait_until(room_, deadline);
  }
  if (ended_) throw gone();
  return true;
}

void Session::flush() {
  for (;;) {
    std::shared_ptr<Link> link;
    {
      MutexLock lock(state_);
      flush_posted_ = false;
      if (writing_ || blocked_ || !sending_) return;
      if (batch_.empty()) {
        const uint64_t handled = handled_;
        const size_t before = control_.size();
        try {
          if (!control_.empty()) batch_.add(std::exchange(control_, {}));
          outbox_.gather(batch_, handled);
          if (batch_.size() == before && acknowledgement_due_ && handled > acknowledged_to_peer_)
            batch_.add(encode_plain(FrameKind::acknowledgement, 0, handled));
        } catch (const std::exception& error) {
          // What was gathered is not whole: this link is given up, and the next one sends it again.
          LOG(WARNING) << "gradwire: " << mine_.name << " cannot write to " << peer_->name << ": " << error.what();
          sending_->close();
          blocked_ = true;
          return;
        }
        if (batch_.size() > before) {
          acknowledged_to_peer_ = handled;
          acknowledgement_due_ = false;
        }
        if (batch_.empty()) return;
      }
      writing_ = true;
      link = sending_;
    }
    const Transfer transfer = link->write(batch_.buffers(), batch_.descriptors());
    batch_.written(transfer.bytes);
    MutexLock lock(state_);
    writing_ = false;
    written_.notify_all();
    // The link is stopped. Who stops it waits for this write first (L2), so there is no next link yet; who brings that
    // one writes what is queued.
    if (sending_ != link) return;
    // The reader of the link finds out that it is closed, and acts (L5); all that is left here is to stop writing.
    if (transfer.closed) {
      if (transfer.descriptors_lost) descriptors_failed_ = true;
      blocked_ = true;
      return;
    }
    if (!batch_.empty()) {
      blocked_ = true;
      link->want_writable();
      return;
    }
  }
}

bool Session::add_control(FrameKind kind, uint64_t number, std::string_view payload) {
  MutexLock lock(state_);
  if (!sending_) return true;
  if (control_.size() >= most_control_bytes) return false;
  // Looked up under the lock under which frames are put in order: an acknowledgement must not go back (L6).
  encode(control_, {.payload_size = static_cast<uint32_t>(payload.size()),
                    .kind = kind,
                    .number = number,
                    .acknowledged = handled_});
  control_ += payload;
  return true;
}

void Session::answer(FrameKind kind, uint64_t number, std::string_view payload) {
  if (!add_control(kind, number, payload)) throw wire::MalformedError("it asks and asks, and reads no answer");
}

void Session::acknowledge_soon() {
  bool time_it = false;
  {
    MutexLock lock(state_);
    if (handled_ - acknowledged_to_peer_ >= 64)
      acknowledgement_due_ = true;
    else if (handled_ > acknowledged_to_peer_ && !acknowledgement_timed_)
      time_it = acknowledgement_timed_ = true;
  }
  if (time_it) acknowledge_later();
}

void Session::acknowledge_later() {
  try {
    place_.loop->after(acknowledgement_delay, weakly(&Session::acknowledge_now));
  } catch (const std::exception&) {
    acknowledge_now();  // no memory for a timer
  }
}

void Session::acknowledge_now() {
  {
    MutexLock lock(state_);
    acknowledgement_timed_ = false;
    acknowledgement_due_ = true;
  }
  flush();
}

void Session::send_frees() { send_control(MessageType::free_segments, frees_->take()); }

void Session::send_control(MessageType type, const std::vector<uint64_t>& ids) {
  if (ids.empty() || ended_) return;
  wire::ByteWriter head;
  for (uint64_t id : ids) head.put(id);
  try {
    send({.type = type, .head = head.take()}, Admission::always);
  } catch (const PeerGoneError&) {
    // Then there is no one to tell.
  }
}

// The current link's only reader, instead of the loop, until this is gone.
class Session::ReaderLease {
 public:
  // None if someone else reads it, or if no thread can.
  ReaderLease(Session& session, Waker& waker) : session_(session) {
    MutexLock lock(session_.order_);
    if (!session_.current_ || session_.reader_claimed_ || session_.current_->link().descriptor() < 0 ||
        !waker.can_watch())
      return;
    channel_ = session_.current_;
    session_.reader_claimed_ = true;
    channel_->link().want_readable(false);
  }
  ~ReaderLease() {
    if (!channel_) return;
    MutexLock lock(session_.order_);
    if (session_.current_ != channel_) return;
    session_.reader_claimed_ = false;
    channel_->link().want_readable(true);
  }
  ReaderLease(const ReaderLease&) = delete;
  ReaderLease& operator=(const ReaderLease&) = delete;
  const std::shared_ptr<Channel>& channel() const { return channel_; }

 private:
  Session& session_;
  std::shared_ptr<Channel> channel_;
};

bool Session::wait(Waker& waker, const std::function<bool()>& done, Time deadline) {
  flush();
  while (!done() && place_.loop->now() < deadline) {
    const ReaderLease lease(*this, waker);
    const std::shared_ptr<Channel>& channel = lease.channel();
    if (!channel) {
      waker.sleep(-1, deadline);
      continue;
    }
    bool current = true;
    while (current && !done() && place_.loop->now() < deadline) {
      if (waker.sleep(channel->link().descriptor(), deadline, [&] { return read(channel); })) read(channel);
      MutexLock lock(order_);
      current = current_ == channel;
    }
  }
  return done();
}

void Session::leave(Duration limit, std::function<void()> left) {
  {
    MutexLock order(order_);
    bool already_gone;
    {
      MutexLock lock(state_);
      already_gone = ended_;
      if (!already_gone) {
        left_.swap(left);
        leaving_ = true;
        say_goodbye_if_due();
      }
    }
    if (already_gone) return place_.loop->post(std::move(left));
    dial_if_needed();
  }
  flush();
  place_.loop->after(limit,
                     weakly(&Session::end_now, GoneReason::left, std::string("it did not answer our goodbye in time")));
}

// L9: behind everything else, the bytes of large parts included: the receiver closes when it has read it.
void Session::say_goodbye_if_due() {
  if (!leaving_ || goodbye_number_ != 0 || !outbox_.only_heads_left()) return;
  const auto goodbye = std::make_shared<Outgoing>();
  encode_message(*goodbye, {.type = MessageType::goodbye}, nullptr, *place_.blocks);
  outbox_.push(goodbye, Admission::always);
  goodbye_number_ = outbox_.last_number();
}

bool Session::goodbye_heard() const { return goodbye_number_ != 0 && outbox_.acknowledged() >= goodbye_number_; }

void Session::end_now(GoneReason reason, const std::string& why) {
  MutexLock lock(order_);
  end(reason, why);
}

void Session::end(GoneReason reason, const std::string& why, Answer answer) {
  if (ended_) return;
  last_answer_ = answer;
  stop_link();
  stop_dial();
  waiting_for_peer_ = false;
  std::function<void()> left;
  std::optional<PeerGoneError> lost;
  {
    MutexLock lock(state_);
    ended_ = true;
    // Whoever has said goodbye does not call the other's end a death: it may have left at the same time.
    if (goodbye_number_ != 0) reason = GoneReason::left;
    gone_reason_ = reason;
    gone_why_ = why;
    lost = gone();
    outbox_.clear();
    room_.notify_all();
    left = std::move(left_);
  }
  pool_->clear();
  inbox_.lose(*lost);
  tell_answered(answer);
  try {
    if (left) place_.loop->post(std::move(left));
    if (place_.forget) place_.forget(*peer_, *lost);
  } catch (const std::exception& error) {
    // S2: the end is announced all the same, or callers would wait for ever.
    LOG(ERROR) << "gradwire: " << mine_.name << " cannot put away its session with " << peer_->name << ": "
               << error.what();
  }
  if (std::shared_ptr<SessionHandler> handler = place_.handler.lock()) handler->peer_gone(*this, reason, why);
}

void Session::when_answered(std::function<void(Answer)> told) {
  Answer answer;
  {
    MutexLock lock(order_);
    if (!ended_ && !current_) return when_answered_.push_back(std::move(told));
    answer = ended_ ? last_answer_ : Answer::there;
  }
  told(answer);
}

std::string Session::dial_failure() {
  MutexLock lock(order_);
  return dial_failure_;
}

void Session::tell_answered(Answer answer) {
  for (const auto& told : std::exchange(when_answered_, {})) told(answer);
}

PeerGoneError Session::gone() const {
  return {fmt::format("{} is gone ({}): {}", to_string(*peer_), name_of(gone_reason_), gone_why_), peer_->name,
          gone_reason_};
}

void Session::log_limited(RateLimitedLog& log, const std::string& line) const {
  if (const auto more = log.admit(place_.loop->now())) LOG(WARNING) << "gradwire: " << line << *more;
}

void Session::tick(Time expected) {
  const Duration period = options_.peer_timeout / 8;
  const Time now = place_.loop->now();
  bool ping = false;
  {
    MutexLock lock(order_);
    if (ended_) return;
    // First: if anything below fails, the next tick comes all the same.
    place_.loop->after(period, weakly(&Session::tick, now + period));
    // If this process was stopped, the silence was its own: what the others said meanwhile is still unread.
    if (now > expected + period) last_heard_ = std::min(now, last_heard_ + (now - expected));
    const Duration silence = now - last_heard_;
    if (silence >= options_.peer_timeout) {
      end(GoneReason::died,
          fmt::format("nothing was heard from it for {} ms{}{}",
                      std::chrono::duration_cast<std::chrono::milliseconds>(silence).count(),
                      dial_failure_.empty() ? "" : "; the last attempt to connect failed: ", dial_failure_),
          dial_impossible_ ? Answer::unreachable : Answer::gone);
      return;
    }
    if (current_) {
      if (silence >= period * 2 && last_pinged_ > last_heard_) {
        link_lost(current_, "silent although pinged");  // L5
      } else if (silence >= period) {
        last_pinged_ = now;
        ping = true;
      }
    }
  }
  if (ping) {
    add_control(FrameKind::ping);
    flush();
  }
  send_control(MessageType::retire_segments, pool_->retire_idle(now - segment_idle_time));
}

Session::Statistics Session::statistics() {
  MutexLock order(order_);
  MutexLock lock(state_);
  return {.handled = handled_,
          .sent = outbox_.last_number(),
          .bytes_received = inbox_.bytes(),
          .bytes_sent = outbox_.bytes(),
          .held_bytes = outbox_.held_bytes(),
          .segment_bytes = pool_->bytes(),
          .segments_lent = pool_->lent_count(),
          .links = links_,
          .dials = dials_,
          .linked = current_ != nullptr};
}

void Session::break_link() {
  MutexLock lock(order_);
  if (current_) link_lost(current_, "broken on request");
}

}  // namespace gradwire::net
