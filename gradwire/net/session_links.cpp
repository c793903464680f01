// Which link a session uses: rules L1-L5 and L8 of docs/protocol.md.
#include <c10/util/Logging.h>
#include <fmt/format.h>

#include "gradwire/base/printable.h"
#include "gradwire/net/say_and_close.h"
#include "gradwire/net/session.h"

namespace gradwire::net {
namespace {

// Of a whole Hello.
size_t list_bytes_of(const Hello& hello) {
  return empty_lists_size + listed_bulk_size * hello.unfinished_bulks.size() +
         listed_segment_size * hello.segments.size();
}

constexpr Duration first_retry = std::chrono::milliseconds(10);
constexpr Duration longest_retry = std::chrono::seconds(1);
// How long a TCP address must refuse before its process counts as gone.
constexpr Duration unreachable_limit = std::chrono::seconds(1);

}  // namespace

void Session::dial() {
  MutexLock lock(order_);
  dial_if_needed();
}

// L1: whenever the session lives and has no link, no dial under way, and is not waiting, even with nothing to send.
void Session::dial_if_needed() {
  if (ended_ || current_ || dial_ || waiting_for_peer_ || dial_scheduled_) return;
  dial_ = std::make_unique<Dial>();
  ++dials_;
  const uint64_t generation = ++dial_generation_;
  // The dial's timer, backing off, but not far: a dial that fell into an outage must not outlast it by much, or the
  // peer would be taken for dead although the network has healed.
  const Duration limit = options_.peer_timeout / 16 * (1 + std::min(failed_dials_, 1U));
  place_.loop->after(limit, weakly(&Session::dial_timed_out, generation));
  place_.transport->dial(*peer_, weakly(&Session::dialled, generation));
}

void Session::dial_later() {
  if (ended_ || current_ || dial_ || dial_scheduled_) return;
  const Duration delay = std::min<Duration>(first_retry * (1U << std::min(failed_dials_, 10U)), longest_retry);
  ++failed_dials_;
  place_.loop->after(delay, weakly(&Session::dial_again));
  dial_scheduled_ = true;
}

void Session::dial_again() {
  MutexLock lock(order_);
  dial_scheduled_ = false;
  dial_if_needed();
}

void Session::dialled(uint64_t generation, const DialResult& result) {
  MutexLock lock(order_);
  if (!dial_ || generation != dial_generation_) {
    if (result.link) result.link->close();
    return;
  }
  switch (result.outcome) {
    case DialOutcome::connected:
      break;
    case DialOutcome::refused:
      dial_.reset();
      end(GoneReason::died, result.why);
      return;
    case DialOutcome::unreachable:
      dial_.reset();
      if (!unreachable_since_) unreachable_since_ = place_.loop->now();
      if (place_.loop->now() - *unreachable_since_ >= unreachable_limit)
        end(GoneReason::died, result.why);
      else
        dial_later();
      return;
    case DialOutcome::failed:
    case DialOutcome::impossible:
      LOG(INFO) << "gradwire: " << mine_.name << " could not connect to " << peer_->name
                << ", will try again: " << result.why;
      dial_failure_ = result.why;
      dial_impossible_ = result.outcome == DialOutcome::impossible;
      dial_.reset();
      dial_later();
      return;
  }
  dial_failure_.clear();
  dial_impossible_ = false;
  unreachable_since_.reset();
  // L1: the attempt; L2: the previous link was stopped when it was lost, so what is sampled now stays true.
  dial_->attempt = 1 + std::max(top_.attempt, refused_attempt_);
  if (dial_->attempt > largest_attempt) {
    result.link->close();
    end(GoneReason::fenced, "the attempts to make a link are used up: somebody has counted them up to the end");
    return;
  }
  top_ = {dial_->attempt, mine_.incarnation};
  size_t most_list_bytes;
  {
    MutexLock state(state_);
    most_list_bytes = outbox_.most_list_bytes();
  }
  dial_->channel = std::make_shared<Channel>(result.link, largest_fixed_part + most_list_bytes);
  dial_->hello.add(encode_hello(sample(*result.link, dial_->attempt)));
  watch(dial_->channel);
  write_hello();
}

void Session::write_hello() {
  if (!dial_ || !dial_->channel || dial_->hello.empty()) return;
  Link& link = dial_->channel->link();
  const Transfer transfer = link.write(dial_->hello.buffers(), {});
  dial_->hello.written(transfer.bytes);
  // If it is closed, reading tells.
  if (!transfer.closed && !dial_->hello.empty()) link.want_writable();
}

// L4: what the acceptor answers.
void Session::dial_answered(const Channel::Event& event) {
  switch (event.header.kind) {
    case FrameKind::hello: {
      const Hello hello = decode_hello(event.payload);
      if (hello.version != protocol_version || hello.mine.incarnation != peer_->incarnation ||
          hello.yours != mine_.incarnation)
        throw wire::MalformedError("Hello in answer to ours is not from whom we dialled");
      std::shared_ptr<Channel> channel = dial_->channel;
      std::string why;
      {
        MutexLock lock(state_);
        why = outbox_.impossible(hello);
      }
      if (!why.empty()) {
        // There is no healthy link to spare, and the next dial would be answered in the same way.
        log_limited(place_.logs->gaps, fmt::format("{} ends its session with {}: {}", mine_.name, peer_->name, why));
        say_and_close(channel->link(), encode_plain(FrameKind::fenced));
        end(GoneReason::fenced, why, Answer::there);
        return;
      }
      dial_.reset();
      adopt(std::move(channel), hello, "");
      return;
    }
    case FrameKind::refused:
      if (event.header.number > largest_attempt)
        throw wire::MalformedError(fmt::format("Refused for attempt {}, which cannot be", event.header.number));
      // The peer has, or is making, a better link: wait for it until this dial's timer ends.
      heard();
      refused_attempt_ = std::max(refused_attempt_, event.header.number);
      waiting_for_peer_ = true;
      dial_->channel->link().close();
      dial_.reset();
      return;
    case FrameKind::not_me:
      end(GoneReason::died, "another incarnation answers at its address");
      return;
    case FrameKind::fenced:
      end(GoneReason::fenced, "it has declared this worker dead", Answer::there);
      return;
    case FrameKind::incompatible:
      end(GoneReason::fenced, fmt::format("it cannot talk to this worker: {}", printable(event.payload)),
          Answer::there);
      return;
    default:
      throw wire::MalformedError("answer to Hello that is none");
  }
}

void Session::dial_timed_out(uint64_t generation) {
  MutexLock lock(order_);
  if (generation != dial_generation_) return;
  waiting_for_peer_ = false;
  if (dial_) {
    stop_dial();
    dial_later();
  } else {
    dial_if_needed();
  }
}

std::optional<std::string> Session::refusal_of_first(const Hello& hello, size_t list_bytes) {
  if (hello.attempt <= largest_attempt && hello.last_handled == 0 && list_bytes <= empty_lists_size) return {};
  return encode_plain(FrameKind::fenced);
}

std::optional<std::string> Session::refusal(const Hello& fixed_part, size_t list_bytes) {
  MutexLock lock(order_);
  return check(fixed_part, list_bytes);
}

// L3: changes nothing. What is refused once is refused for good, so that the fixed part may be checked first.
std::optional<std::string> Session::check(const Hello& hello, size_t list_bytes) {
  if (ended_) return encode_plain(FrameKind::fenced);
  if (Rank{hello.attempt, hello.mine.incarnation} <= top_) return encode_plain(FrameKind::refused, top_.attempt);
  std::string why;
  {
    MutexLock lock(state_);
    why = outbox_.impossible(hello);
    if (list_bytes > outbox_.most_list_bytes()) why = "it lists more bulks and segments than it was ever sent";
  }
  if (hello.attempt > largest_attempt) why = fmt::format("it dials for the {}th time, which cannot be", hello.attempt);
  if (why.empty()) return {};
  log_limited(place_.logs->turned_away,
              fmt::format("{} turns away a connection that says that it is {}: {}", mine_.name, peer_->name, why));
  return encode_plain(FrameKind::fenced);
}

// L3: in one step under the session's lock. Hello is checked whole before anything is stopped.
void Session::accept(std::shared_ptr<Channel> channel, const Hello& hello) {
  {
    MutexLock lock(order_);
    if (std::optional<std::string> answer = check(hello, list_bytes_of(hello)))
      return say_and_close(channel->link(), *answer);
    top_ = {hello.attempt, hello.mine.incarnation};
    stop_link();
    stop_dial();
    adopt(channel, hello, encode_hello(sample(channel->link(), hello.attempt)));
    if (current_ == channel) watch(channel);
    flush();
    if (!ended_) handle_events(channel, place_.handler.lock().get());
  }
  flush();
}

Hello Session::sample(const Link& link, uint64_t attempt) const {
  Hello hello;
  if (options_.segments && !descriptors_failed_ && link.passes_descriptors())
    hello.features |= static_cast<uint64_t>(Feature::descriptors);
  hello.mine = mine_;
  hello.yours = peer_->incarnation;
  hello.attempt = attempt;
  hello.last_handled = handled_;
  hello.unfinished_bulks = inbox_.unfinished();
  hello.segments = inbox_.segments();
  return hello;
}

void Session::adopt(std::shared_ptr<Channel> channel, const Hello& hello, std::string own_hello) {
  current_ = channel;
  ++links_;
  waiting_for_peer_ = false;
  failed_dials_ = 0;
  reader_claimed_ = false;
  unreachable_since_.reset();
  heard();
  segments_usable_ = options_.segments && !descriptors_failed_ && channel->link().passes_descriptors() &&
                     hello.has(Feature::descriptors);
  channel->set_largest_payload(largest_frame_payload);
  bool left;
  {
    MutexLock lock(state_);
    outbox_.resume(hello, segments_usable_ ? nullptr : pool_.get());
    room_.notify_all();
    sending_ = channel->shared_link();
    acknowledged_to_peer_ = handled_;
    acknowledgement_due_ = false;
    if (!own_hello.empty()) batch_.add(std::move(own_hello));
    say_goodbye_if_due();
    left = goodbye_heard();
  }
  tell_answered(Answer::there);
  if (left) end(GoneReason::left, "we said goodbye");
}

void Session::watch(const std::shared_ptr<Channel>& channel) {
  channel->link().watch(
      [weak = weak_from_this(), held = std::weak_ptr<Channel>(channel)] {
        std::shared_ptr<Session> self = weak.lock();
        std::shared_ptr<Channel> readable = held.lock();
        if (self && readable) self->read(readable);
      },
      [weak = weak_from_this(), held = std::weak_ptr<Channel>(channel)] {
        std::shared_ptr<Session> self = weak.lock();
        std::shared_ptr<Channel> writable = held.lock();
        if (self && writable) self->write_more(writable);
      });
  channel->link().want_readable(true);
}

void Session::write_more(const std::shared_ptr<Channel>& channel) {
  {
    MutexLock order(order_);
    if (dial_ && dial_->channel == channel) return write_hello();
    MutexLock lock(state_);
    if (sending_ != channel->shared_link()) return;
    blocked_ = false;
  }
  flush();
}

// L2: afterwards no thread touches the link's buffers. What was read completely has been handled, because handling
// holds the lock that the caller holds; the rest is dropped.
void Session::stop_link() {
  if (!current_) return;
  current_->link().close();
  {
    MutexLock lock(state_);
    sending_.reset();
    while (writing_) lock.wait(written_);
    batch_.clear();
    control_.clear();
    blocked_ = false;
  }
  current_.reset();
}

void Session::stop_dial() {
  if (!dial_) return;
  ++dial_generation_;
  if (dial_->channel) dial_->channel->link().close();
  dial_.reset();
}

bool Session::owns(const Channel* channel) const {
  return channel != nullptr && (current_.get() == channel || (dial_ && dial_->channel.get() == channel));
}

// L5: only the end of the current link or of one's own dial counts.
void Session::link_lost(const std::shared_ptr<Channel>& channel, const std::string& why) {
  if (!owns(channel.get()) || ended_) return;
  if (current_ == channel) {
    LOG(INFO) << "gradwire: " << mine_.name << " lost its " << channel->link().kind() << " link to " << peer_->name
              << " (" << why << "); making it anew";
    stop_link();
    dial_if_needed();
  } else {
    stop_dial();
    dial_later();
  }
}

}  // namespace gradwire::net
