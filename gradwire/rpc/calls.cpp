// As a caller. For what runs here for others see calls_served.cpp.
#include "gradwire/rpc/calls.h"

#include <set>

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gradwire/rpc/call_messages.h"
#include "gradwire/rpc/error_on_wire.h"

namespace gradwire {

std::shared_ptr<Calls> Calls::make(Place place, Registry registry) {
  std::shared_ptr<Calls> calls(new Calls(std::move(place), std::move(registry)));
  const auto handle = [&](net::MessageType type, auto act) {
    calls->place_.exchange->on_message(
        type, [weak = std::weak_ptr(calls), act](const Exchange::From& from, Received&& received) {
          if (std::shared_ptr<Calls> self = weak.lock()) act(*self, from, std::move(received));
        });
  };
  handle(request_type, [](Calls& self, const Exchange::From& from, Received received) {
    self.request_arrived(from, std::move(received));
  });
  handle(reply_type, [](Calls& self, const Exchange::From& from, Received received) {
    self.reply_arrived(*from, std::move(received));
  });
  handle(cancel_type, [](Calls& self, const Exchange::From& from, const Received& received) {
    self.cancel_arrived(*from, received);
  });
  calls->place_.exchange->on_gone(
      [weak = std::weak_ptr(calls)](const net::Record& peer, GoneReason reason, const std::string& why) {
        if (std::shared_ptr<Calls> self = weak.lock()) self->peer_gone(peer, reason, why);
      });
  return calls;
}

void Calls::start(std::shared_ptr<const net::Record> peer, const Target& target, wire::Payload arguments,
                  const std::shared_ptr<FutureState>& state, net::Duration timeout) {
  net::Runtime::require_threads();
  const uint64_t call = next_call_.fetch_add(1, std::memory_order_relaxed);
  state->belongs_to(weak_from_this(), call);
  if (const auto& cancellation = Surroundings::here().cancellation) cancellation->add(state);
  const bool limited = timeout != net::Duration::max();
  const net::Time now = place_.runtime->now();
  const Incarnation incarnation = peer->incarnation;
  {
    MutexLock lock(mutex_);
    if (closed_)
      throw InvalidArgumentError(fmt::format("{} has left the group and cannot call: join again", place_.name));
    Pending& pending = pending_[call];
    pending.state = state;
    pending.peer = peer;
    pending.target = target.name;
    pending.timeout = timeout;
    pending.began = now;
    pending.context = Surroundings::here().context;
    if (limited) {
      pending.deadline = deadlines_.add(now, timeout, call);
      arm(now + timeout);
    }
    ++counts_[incarnation].sent;
  }
  if (!Surroundings::here().context) forgotten_context_.arguments(arguments, target.name, peer->name);
  wire::ByteWriter head;
  head.bytes().reserve(32 + target.name.size() + target.detail.size());
  head.put(call);
  head.put(static_cast<uint8_t>(target.kind));
  head.put_string(target.name);
  head.put_string(target.detail);
  Exchange::Sent sent;
  try {
    const Trace::Span span(trace(), "encode", target.name, Trace::Flow::begins, {place_.incarnation, call});
    sent = place_.exchange->send(*peer, {.type = request_type, .head = head.take(), .payload = std::move(arguments)},
                                 net::Admission::waits_for_room);
  } catch (const PeerGoneError&) {
    {
      // It may have been counted after those that are gone were struck out: it would be missed for ever when leaving.
      MutexLock lock(mutex_);
      counts_.erase(incarnation);
    }
    if (const std::optional<Pending> pending = take(call)) fail(*pending, std::current_exception());
    return;
  } catch (...) {
    take_back_count(incarnation);
    take(call);
    throw;
  }
  if (!sent.session) return;
  state->read_while_waiting(sent.session);
  if (Surroundings::here().in_task) return;  // it suspends when it awaits the reply
  try {
    if (sent.session->wait_for_room(sent.place, net::Time::min())) return;
    const net::Threads::Blocked blocked;
    sent.session->wait_for_room(sent.place, limited ? now + timeout : net::Time::max());
  } catch (const PeerGoneError&) {
    // The call was failed when the peer was found gone.
  }
}

std::optional<Calls::Pending> Calls::take(uint64_t call, Incarnation callee) {
  std::optional<Pending> pending;
  {
    MutexLock lock(mutex_);
    auto found = pending_.find(call);
    if (found == pending_.end()) return {};
    if (callee != Incarnation::none && found->second.peer->incarnation != callee) return {};
    pending = std::move(found->second);
    pending_.erase(found);
    if (pending->deadline) deadlines_.remove(*pending->deadline);
    look_whether_idle();
  }
  const net::Time now = place_.runtime->now();
  calls_.add(now - pending->began);
  if (Trace* kept = trace())
    kept->stretch("call", fmt::format("{} at {}", pending->target, pending->peer->name), pending->began, now,
                  {place_.incarnation, call});
  return pending;
}

// Nothing was sent after all. If the peer was found gone meanwhile, its counts are gone too: to count below zero would
// keep the sums of a group that leaves apart for ever.
void Calls::take_back_count(Incarnation peer) {
  MutexLock lock(mutex_);
  if (auto found = counts_.find(peer); found != counts_.end() && found->second.sent > 0) --found->second.sent;
}

void Calls::fail(const Pending& pending, std::exception_ptr error) {
  failed_.fetch_add(1, std::memory_order_relaxed);
  pending.state->fail(std::move(error), std::make_shared<FutureState::Subject>(pending.target, pending.peer->name));
}

void Calls::give_up(const Pending& pending, const std::string& why) {
  cancelled_.fetch_add(1, std::memory_order_relaxed);
  pending.state->fail(std::make_exception_ptr(CancelledError(
      fmt::format("the call of \"{}\" at {} was {}", pending.target, pending.peer->name, why), pending.peer->name)));
}

std::shared_ptr<void> Calls::context_of(uint64_t call, Incarnation callee) {
  MutexLock lock(mutex_);
  auto found = pending_.find(call);
  return found != pending_.end() && found->second.peer->incarnation == callee ? found->second.context : nullptr;
}

void Calls::reply_arrived(const net::Record& from, Received received) {
  wire::ByteReader head(received.message.head);
  const auto call = head.take<uint64_t>();
  const bool failed = head.take<bool>();
  std::shared_ptr<net::Arrival> arrival = received.message.arrival;
  if (!arrival) {
    // Too large for this worker: its caller is to know.
    if (std::optional<Pending> pending = take(call, from.incarnation))
      fail(*pending,
           std::make_exception_ptr(OverloadedError(fmt::format("the result of \"{}\" from {} was refused: {}",
                                                               pending->target, from.name, received.message.refusal),
                                                   from.name)));
    return;
  }
  const auto settled = [weak = weak_from_this(), call, failed, arrival, callee = from.incarnation,
                        worker = from.name](Luggage luggage) {
    std::shared_ptr<Calls> self = weak.lock();
    std::optional<Pending> pending = self ? self->take(call, callee) : std::nullopt;
    if (!pending) return;  // Q3: late, and dropped with all it carried
    if (!failed) {
      pending->state->arrived(arrival, std::move(luggage));
      return;
    }
    std::exception_ptr error;
    try {
      error = decode_error(arrival->take().bytes, worker);
    } catch (...) {
      error = std::current_exception();
    }
    self->fail(*pending, std::move(error));
  };
  if (arrival->settled()) return settled(std::move(received.luggage));
  arrival->when_settled(
      [settled, luggage = std::make_shared<Luggage>(std::move(received.luggage))] { settled(std::move(*luggage)); });
}

void Calls::cancel(uint64_t call) {
  std::optional<Pending> pending = take(call);
  if (!pending) return;
  give_up(*pending, "cancelled by its caller, " + place_.name);
  tell_cancel(*pending->peer, call);
}

void Calls::tell_cancel(const net::Record& peer, uint64_t call) {
  wire::ByteWriter head;
  head.put(call);
  place_.exchange->tell(peer, {.type = cancel_type, .head = head.take(), .payload = {}});
}

// A timer is started only if it is due before all that are outstanding: these suffice for every later deadline, because
// whichever fires looks at all deadlines. Calls that are over by then cost nothing.
void Calls::arm(net::Time at) {
  if (at == net::Time::max() || (!timers_.empty() && timers_.back() <= at)) return;
  place_.runtime->after(at - place_.runtime->now(), [weak = weak_from_this(), at] {
    if (std::shared_ptr<Calls> self = weak.lock()) self->expire(at);
  });
  // Last: a timer that could not be made must not count as one. It waits for the lock that is held here.
  timers_.push_back(at);
}

void Calls::expire(net::Time timer) {
  std::vector<uint64_t> over;
  {
    MutexLock lock(mutex_);
    std::erase(timers_, timer);
    over = deadlines_.over(place_.runtime->now());
  }
  for (uint64_t call : over) {
    std::optional<Pending> pending = take(call);
    if (!pending) continue;
    fail(
        *pending,
        std::make_exception_ptr(TimeoutError(
            fmt::format("the call of \"{}\" at {} took longer than {} ms; give it more time with Peer::with_timeout or "
                        "WorkerOptions::call_timeout",
                        pending->target, pending->peer->name,
                        std::chrono::duration_cast<std::chrono::milliseconds>(pending->timeout).count()),
            pending->peer->name)));
    tell_cancel(*pending->peer, call);
  }
  MutexLock lock(mutex_);
  arm(deadlines_.next());
}

void Calls::peer_gone(const net::Record& peer, GoneReason reason, const std::string& why) {
  std::vector<std::pair<uint64_t, std::string>> calls;
  {
    MutexLock lock(mutex_);
    counts_.erase(peer.incarnation);
    for (const auto& [call, pending] : pending_)
      if (pending.peer->incarnation == peer.incarnation) calls.emplace_back(call, pending.target);
  }
  for (const auto& [call, target] : calls)
    if (std::optional<Pending> pending = take(call))
      fail(*pending, std::make_exception_ptr(
                         PeerGoneError(fmt::format("{} is gone ({}) before it answered the call of \"{}\": {}",
                                                   to_string(peer), name_of(reason), target, why),
                                       peer.name, reason)));
  cancel_served_for(peer.incarnation);
}

void Calls::fail_all(const std::string& why) {
  std::vector<uint64_t> calls;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    when_idle_ = nullptr;
    for (const auto& [call, pending] : pending_) calls.push_back(call);
  }
  for (uint64_t call : calls)
    if (std::optional<Pending> pending = take(call)) give_up(*pending, "given up: " + why);
}

Calls::Totals Calls::totals() const {
  return {failed_.load(std::memory_order_relaxed), cancelled_.load(std::memory_order_relaxed), calls_.read(),
          queued_.read(), functions_.read()};
}

Calls::Activity Calls::activity() {
  MutexLock lock(mutex_);
  Activity activity{.calls_under_way = pending_.size(), .functions_running = served_.size()};
  for (const auto& [peer, counts] : counts_) {
    activity.requests_sent += counts.sent;
    activity.requests_received += counts.received;
  }
  return activity;
}

std::string Calls::whom_called() {
  std::set<std::string> names;
  MutexLock lock(mutex_);
  for (const auto& [call, pending] : pending_) names.insert(pending.peer->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void Calls::when_idle(std::function<void()> told) {
  MutexLock lock(mutex_);
  when_idle_ = std::move(told);
  look_whether_idle();
}

void Calls::look_whether_idle() {
  if (when_idle_ && pending_.empty() && served_.empty()) place_.runtime->post(std::exchange(when_idle_, nullptr));
}

}  // namespace gradwire
