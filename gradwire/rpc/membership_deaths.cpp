// How the end of a member becomes known: the part of Membership that weighs what is heard.
#include <c10/util/Logging.h>

#include "gradwire/rpc/membership.h"

namespace gradwire {
namespace {

// On one host a dial of a worker that is gone is refused at once.
constexpr auto verdict_patience = std::chrono::milliseconds(200);

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

bool Membership::suspect(const net::Record& member) {
  return suspects_
      .try_emplace(member.incarnation, Suspicion{.until = runtime_->now() + verdict_patience, .name = member.name})
      .second;
}

void Membership::hint_arrived(Incarnation incarnation) {
  RecordPointer known;
  {
    MutexLock lock(mutex_);
    known = known_by(incarnation);
    if (!known || !suspect(*known)) return;
  }
  // Not here, in the handler of a message.
  runtime_->submit([self = shared_from_this(), known] { self->verify(known); });
}

// Reports that it is there, unless that was done. First comes the end of its earlier life, if that is being looked
// into.
void Membership::report_joined(const net::Record& record) {
  for (auto& [incarnation, suspicion] : suspects_)
    if (suspicion.name == record.name && incarnation != record.incarnation && !suspicion.answered) {
      suspicion.successor = record;
      return;
    }
  if (told_.insert(record.incarnation).second) events_->report({{PeerEvent::Kind::joined, record.name, record.rank}});
}

void Membership::proved_alive(Incarnation incarnation) {
  MutexLock lock(mutex_);
  const auto found = suspects_.find(incarnation);
  if (found == suspects_.end()) return;
  found->second.answered = true;
  if (const std::optional<net::Record> successor = std::exchange(found->second.successor, {}))
    report_joined(*successor);
}

void Membership::verify(const RecordPointer& suspected) {
  try {
    // One that answers was suspected wrongly: its end, when that comes, is found by this worker itself. (A leaver
    // answers until it has said goodbye, so what it said of leaving is kept.)
    exchange_->meet(*suspected)
        ->when_answered([weak = weak_from_this(), incarnation = suspected->incarnation](net::Answer answer) {
          const std::shared_ptr<Membership> self = weak.lock();
          if (self && answer == net::Answer::there) self->proved_alive(incarnation);
        });
  } catch (const Error& error) {
    VLOG(1) << "gradwire: " << suspected->name << " is not asked whether it lives: " << error.what();
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

// Called by a session, under its lock.
void Membership::peer_gone(const net::Record& peer, GoneReason reason) {
  bool by_hearsay = false;
  {
    MutexLock lock(mutex_);
    if (gone_.contains(peer.incarnation)) return;
    // It stays among the suspects until its end is reported: the next life of its name is told after that.
    by_hearsay = !suspect(peer) && !suspects_.at(peer.incarnation).answered;
    Suspicion& suspicion = suspects_.at(peer.incarnation);
    if (suspicion.said_left) reason = GoneReason::left;
    suspicion.until = {};
    suspicion.answered = false;
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
  const auto suspicion = suspects_.extract(peer.incarnation);
  const std::optional<net::Record> successor = suspicion ? suspicion.mapped().successor : std::nullopt;
  std::vector<PeerEvent> events;
  if (told_.insert(peer.incarnation).second) events.push_back({PeerEvent::Kind::joined, peer.name, peer.rank});
  events.push_back({kind_of(gone_[peer.incarnation]), peer.name, peer.rank});
  if (successor && told_.insert(successor->incarnation).second)
    events.push_back({PeerEvent::Kind::joined, successor->name, successor->rank});
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

}  // namespace gradwire
