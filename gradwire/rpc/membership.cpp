#include "gradwire/rpc/membership.h"

#include <algorithm>
#include <thread>

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gradwire/rpc/cancellation.h"
#include "gradwire/rpc/surroundings.h"

namespace gradwire {
namespace {

constexpr net::MessageType gone_type{28};
constexpr auto refresh_period = std::chrono::milliseconds(250);
// On one host a dial of a worker that is gone is refused at once.
constexpr auto verdict_patience = std::chrono::milliseconds(200);
constexpr auto farewell_patience = std::chrono::seconds(1);
// How often the meeting point is asked for a worker that is waited for.
constexpr auto look_period = std::chrono::milliseconds(20);

PeerEvent::Kind kind_of(GoneReason reason) {
  switch (reason) {
    case GoneReason::left:
      return PeerEvent::Kind::left;
    case GoneReason::fenced:
      return PeerEvent::Kind::fenced;
    default:
      return PeerEvent::Kind::died;
  }
}

}  // namespace

std::shared_ptr<Membership> Membership::make(std::shared_ptr<net::MeetingPoint> meeting_point,
                                             std::shared_ptr<net::Runtime> runtime,
                                             std::shared_ptr<Exchange> exchange) {
  std::shared_ptr<Membership> membership(
      new Membership(std::move(meeting_point), std::move(runtime), std::move(exchange)));
  membership->exchange_->on_message(
      gone_type, [weak = std::weak_ptr(membership)](const Exchange::From&, const Received& received) {
        const Incarnation suspect{wire::ByteReader(received.message.head).take<uint64_t>()};
        if (std::shared_ptr<Membership> self = weak.lock()) self->hint_arrived(suspect);
      });
  membership->exchange_->on_gone(
      [weak = std::weak_ptr(membership)](const net::Record& peer, GoneReason reason, const std::string&) {
        if (std::shared_ptr<Membership> self = weak.lock()) self->peer_gone(peer, reason);
      });
  return membership;
}

Membership::Membership(std::shared_ptr<net::MeetingPoint> meeting_point, std::shared_ptr<net::Runtime> runtime,
                       std::shared_ptr<Exchange> exchange)
    : meeting_point_(std::move(meeting_point)),
      runtime_(std::move(runtime)),
      exchange_(std::move(exchange)),
      events_(std::make_shared<PeerEvents>(runtime_)) {}

void Membership::say_left() noexcept {
  if (!entered_) return;
  try {
    // The goodbye must not wait long for a store that does not answer.
    meeting_point_->keep_to(std::chrono::steady_clock::now() + farewell_patience);
    meeting_point_->add_event({.kind = net::MeetingPoint::Event::Kind::left, .record = *mine()});
  } catch (const std::exception& error) {
    VLOG(1) << "gradwire: " << mine()->name << " could not tell the meeting point that it leaves: " << error.what();
  }
}

bool Membership::note(const RecordPointer& record) {
  if (gone_.contains(record->incarnation)) return false;
  RecordPointer& known = by_name_[record->name];
  if (!known || known->incarnation != record->incarnation) known = record;
  return true;
}

Membership::RecordPointer Membership::known_by(Incarnation incarnation) {
  for (const auto& [name, record] : by_name_)
    if (record->incarnation == incarnation) return record;
  return nullptr;
}

template <class Key>
Membership::RecordPointer Membership::find_known(const Key& key, RecordPointer known, const std::string& whom) {
  // Its session would have told of its end.
  if (known && exchange_->has_session_with(known->incarnation)) return known;
  const net::Threads::Blocked blocked;
  std::optional<net::Record> found;
  try {
    found = meeting_point_->look_up(key);
  } catch (const TimeoutError&) {
    if (known) return known;  // workers that know each other do not need the meeting point
    throw;
  }
  if (found) {
    const auto record = std::make_shared<const net::Record>(*std::move(found));
    MutexLock lock(mutex_);
    if (note(record)) return by_name_[record->name];
    const GoneReason reason = gone_[record->incarnation];
    throw PeerGoneError(fmt::format("{} is gone ({}), and no worker has joined in its place: start it again, and wait "
                                    "for it with Worker::wait_for",
                                    to_string(*record), name_of(reason)),
                        record->name, reason);
  }
  std::vector<std::string_view> names;
  const std::vector<RecordPointer> everyone = all();
  for (const RecordPointer& record : everyone) names.push_back(record->name);
  throw NotFoundError(fmt::format("there is no worker {} in the group of {}; there are: {}", whom, mine()->name,
                                  fmt::join(names, ", ")));
}

Membership::RecordPointer Membership::find(const std::string& name) {
  if (RecordPointer me = mine(); name == me->name) return me;
  RecordPointer known;
  {
    MutexLock lock(mutex_);
    if (auto found = by_name_.find(name); found != by_name_.end()) known = found->second;
  }
  return find_known(name, std::move(known), fmt::format("\"{}\"", name));
}

Membership::RecordPointer Membership::find(int rank) {
  if (RecordPointer me = mine(); rank == me->rank) return me;
  RecordPointer known;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, record] : by_name_)
      if (record->rank == rank) known = record;
  }
  return find_known(rank, std::move(known), fmt::format("of rank {}", rank));
}

Membership::RecordPointer Membership::wait_for(const std::string& name, std::chrono::milliseconds timeout) {
  const net::Threads::Blocked blocked;
  const net::Time deadline = net::deadline_after(timeout);
  for (;;) {
    std::string why;
    try {
      return find(name);
    } catch (const NotFoundError& error) {
      why = error.what();
    } catch (const PeerGoneError& error) {
      why = error.what();
    }
    if (cancelled()) throw CancelledError(fmt::format("{} waited for {}, and was cancelled", mine()->name, name), name);
    if (std::chrono::steady_clock::now() >= deadline)
      throw TimeoutError(fmt::format("{} waited {} ms for {}: {}", mine()->name, timeout.count(), name, why), name);
    std::this_thread::sleep_for(look_period);
  }
}

std::vector<Membership::RecordPointer> Membership::all() {
  refresh();
  wait_for_verdicts();
  std::vector<RecordPointer> records{mine()};
  {
    MutexLock lock(mutex_);
    for (const auto& [name, record] : by_name_) records.push_back(record);
  }
  std::ranges::sort(records, {}, [](const RecordPointer& record) { return std::pair(record->rank, record->name); });
  return records;
}

void Membership::refresh() {
  using Kind = net::MeetingPoint::Event::Kind;
  const net::Threads::Blocked blocked;
  const Incarnation self = mine()->incarnation;
  std::vector<RecordPointer> suspects;
  {
    MutexLock one_at_a_time(refreshing_);
    std::vector<net::MeetingPoint::Event> events;
    // A newcomer reads a long history in parts.
    for (std::vector<net::MeetingPoint::Event> more; !(more = meeting_point_->new_events(event_reader_)).empty();)
      events.insert(events.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    for (const net::MeetingPoint::Event& event : events) {
      const net::Record& record = event.record;
      if (record.incarnation == self) continue;
      MutexLock lock(mutex_);
      if (event.kind == Kind::joined) {
        // Reported under the lock: its end, which a session may find at this moment, must come second.
        if (note(std::make_shared<const net::Record>(record)) && told_.insert(record.incarnation).second)
          events_->report({{PeerEvent::Kind::joined, record.name, record.rank}});
        continue;
      }
      const bool said_left = event.kind == Kind::left;
      if (const auto gone = gone_.find(record.incarnation); gone != gone_.end()) {
        if (said_left) gone->second = GoneReason::left;
        continue;
      }
      // Dialled at the address that is known of it, not at the one in the event.
      const RecordPointer known = known_by(record.incarnation);
      if (!known) continue;
      const auto [suspicion, fresh] =
          suspects_.try_emplace(record.incarnation, Suspicion{runtime_->now() + verdict_patience});
      if (said_left) suspicion->second.said_left = true;
      if (fresh) suspects.push_back(known);
    }
  }
  for (const RecordPointer& suspect : suspects) verify(suspect);
}

void Membership::refresh_quietly() noexcept {
  try {
    refresh();
  } catch (const std::exception& error) {
    // Running workers do not need it: only newcomers go unseen.
    VLOG(1) << "gradwire: " << error.what();
  }
}

void Membership::hint_arrived(Incarnation incarnation) {
  RecordPointer known;
  {
    MutexLock lock(mutex_);
    known = known_by(incarnation);
    if (!known || !suspects_.try_emplace(incarnation, Suspicion{runtime_->now() + verdict_patience}).second) return;
  }
  // Not here, in the handler of a message.
  runtime_->submit([self = shared_from_this(), known] { self->verify(known); });
}

void Membership::verify(const RecordPointer& suspect) {
  try {
    // One that answers was suspected wrongly: its end, when that comes, is found by this worker itself. (A leaver
    // answers until it has said goodbye, so what it said of leaving is kept.)
    exchange_->meet(*suspect)->when_answered(
        [weak = weak_from_this(), suspected = suspect->incarnation](bool answered) {
          const std::shared_ptr<Membership> self = weak.lock();
          if (!self || !answered) return;
          MutexLock lock(self->mutex_);
          const auto suspicion = self->suspects_.find(suspected);
          if (suspicion != self->suspects_.end()) suspicion->second.answered = true;
        });
  } catch (const Error& error) {
    VLOG(1) << "gradwire: " << suspect->name << " is not asked whether it lives: " << error.what();
  }
}

void Membership::wait_for_verdicts() {
  const net::Threads::Blocked blocked;
  MutexLock lock(mutex_);
  for (;;) {
    net::Time until{};
    for (const auto& [incarnation, suspicion] : suspects_) until = std::max(until, suspicion.until);
    if (runtime_->now() >= until) return;
    lock.wait_until(verdict_, until);
  }
}

void Membership::watch(PeerEvents::Callback callback) {
  // What was before is not told.
  refresh();
  wait_for_verdicts();
  if (events_->watch(std::move(callback))) refresh_later();
}

void Membership::refresh_later() {
  runtime_->after(refresh_period, [weak = weak_from_this()] {
    std::shared_ptr<Membership> self = weak.lock();
    if (!self) return;
    self->runtime_->submit([weak] {
      std::shared_ptr<Membership> again = weak.lock();
      if (!again || !again->events_->watched()) return;
      again->refresh_quietly();
      again->refresh_later();
    });
  });
}

// Called by a session, under its lock.
void Membership::peer_gone(const net::Record& peer, GoneReason reason) {
  bool by_hearsay = false;
  {
    MutexLock lock(mutex_);
    if (gone_.contains(peer.incarnation)) return;
    const auto suspicion = suspects_.find(peer.incarnation);
    if (suspicion != suspects_.end()) {
      by_hearsay = !suspicion->second.answered;
      if (suspicion->second.said_left) reason = GoneReason::left;
      suspects_.erase(suspicion);
    }
    gone_.emplace(peer.incarnation, reason);
    if (auto known = by_name_.find(peer.name);
        known != by_name_.end() && known->second->incarnation == peer.incarnation)
      by_name_.erase(known);
    verdict_.notify_all();
  }
  if (reason != GoneReason::died) return report_gone(peer);
  if (!by_hearsay) report_gone(peer);
  runtime_->submit([self = shared_from_this(), peer, by_hearsay] {
    if (by_hearsay) {
      // What its own event says of it may not have been read yet.
      self->refresh_quietly();
      self->report_gone(peer);
    }
    self->spread(peer, by_hearsay);
  });
}

void Membership::report_gone(const net::Record& peer) {
  MutexLock lock(mutex_);
  std::vector<PeerEvent> events;
  if (told_.insert(peer.incarnation).second) events.push_back({PeerEvent::Kind::joined, peer.name, peer.rank});
  events.push_back({kind_of(gone_[peer.incarnation]), peer.name, peer.rank});
  events_->report(events);
}

void Membership::spread(const net::Record& dead, bool by_hearsay) noexcept {
  if (!entered_ || closed_) return;
  // The one that found it has told its peers. It may have died before it could tell the meeting point.
  if (!by_hearsay) {
    wire::ByteWriter head;
    head.put(static_cast<uint64_t>(dead.incarnation));
    for (const Exchange::From& peer : exchange_->met())
      exchange_->tell(*peer, {.type = gone_type, .head = head.bytes(), .payload = {}});
  }
  try {
    meeting_point_->hint_gone(dead);
  } catch (const std::exception& error) {
    VLOG(1) << "gradwire: " << mine()->name << " could not tell the meeting point that " << dead.name
            << " is gone: " << error.what();
  }
}

void Membership::close() {
  closed_ = true;
  events_->stop();
}

}  // namespace gradwire
