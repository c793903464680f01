#include "gradwire/rpc/membership.h"

#include <algorithm>

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gradwire {
namespace {

constexpr auto refresh_period = std::chrono::milliseconds(250);

// Whether that incarnation answers at its address. Waits until it is known.
bool answers(net::Endpoint& endpoint, const net::Record& other, std::chrono::steady_clock::time_point deadline) {
  const std::shared_ptr<net::Session> session = endpoint.session(other);
  while (!session->ended()) {
    if (session->statistics().linked) return true;
    if (std::chrono::steady_clock::now() >= deadline)
      throw TimeoutError(
          fmt::format("the name {} is registered for {}, which neither answers nor refuses at its address; choose "
                      "another name, or wait until it is known to be gone",
                      other.name, to_string(other)));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace

std::string_view name_of(PeerEvent::Kind kind) {
  switch (kind) {
    case PeerEvent::Kind::joined:
      return "joined";
    case PeerEvent::Kind::left:
      return "left";
    case PeerEvent::Kind::died:
      return "died";
    case PeerEvent::Kind::fenced:
      return "fenced";
  }
  return "unknown";
}

void Membership::enter(const std::shared_ptr<net::Endpoint>& endpoint, std::chrono::milliseconds timeout) {
  const RecordPointer me(endpoint, &endpoint->record());
  {
    MutexLock lock(mutex_);
    mine_ = me;
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::optional<net::Record> there;
  while ((there = meeting_point_->claim_name(*me, there))) {
    if (answers(*endpoint, *there, deadline))
      throw InvalidArgumentError(
          fmt::format("the name {} is taken: {} answers at its address. Give each worker a name of its own "
                      "(GRADWIRE_NAME or WorkerOptions::name) and each process its RANK",
                      me->name, to_string(*there)),
          there->name);
  }
  meeting_point_->publish(*me);
  meeting_point_->add_event({.joined = true, .record = *me});
  entered_ = true;
}

void Membership::say_left() noexcept {
  if (!entered_) return;
  try {
    meeting_point_->add_event({.joined = false, .record = *mine()});
  } catch (const std::exception& error) {
    VLOG(1) << "gradwire: " << mine()->name << " could not tell the meeting point that it leaves: " << error.what();
  }
}

template <class Key>
Membership::RecordPointer Membership::find_key(const Key& key, const std::string& whom) {
  const net::Threads::Blocked blocked;
  if (std::optional<net::Record> found = meeting_point_->look_up(key)) {
    auto record = std::make_shared<const net::Record>(*std::move(found));
    MutexLock lock(mutex_);
    if (!gone_.contains(record->incarnation)) by_name_[record->name] = record;
    return record;
  }
  std::vector<std::string_view> names;
  const std::vector<RecordPointer> everyone = all();
  for (const RecordPointer& record : everyone) names.push_back(record->name);
  throw NotFoundError(fmt::format("there is no worker {} in the group of {}; there are: {}", whom, mine()->name,
                                  fmt::join(names, ", ")));
}

Membership::RecordPointer Membership::find(const std::string& name) {
  if (RecordPointer me = mine(); name == me->name) return me;
  {
    MutexLock lock(mutex_);
    if (auto found = by_name_.find(name); found != by_name_.end()) return found->second;
  }
  return find_key(name, fmt::format("\"{}\"", name));
}

Membership::RecordPointer Membership::find(int rank) {
  if (RecordPointer me = mine(); rank == me->rank) return me;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, record] : by_name_)
      if (record->rank == rank) return record;
  }
  return find_key(rank, fmt::format("of rank {}", rank));
}

std::vector<Membership::RecordPointer> Membership::all() {
  refresh();
  std::vector<RecordPointer> records{mine()};
  {
    MutexLock lock(mutex_);
    for (const auto& [name, record] : by_name_) records.push_back(record);
  }
  std::ranges::sort(records, {}, [](const RecordPointer& record) { return std::pair(record->rank, record->name); });
  return records;
}

void Membership::refresh() {
  const net::Threads::Blocked blocked;
  const Incarnation self = mine()->incarnation;
  std::vector<PeerEvent> happened;
  {
    MutexLock one_at_a_time(refreshing_);
    for (const net::MeetingPoint::Event& event : meeting_point_->events_after(events_known_)) {
      const net::Record& record = event.record;
      if (record.incarnation == self) continue;
      MutexLock lock(mutex_);
      if (event.joined) {
        if (gone_.contains(record.incarnation)) continue;
        by_name_[record.name] = std::make_shared<const net::Record>(record);
        happened.push_back({PeerEvent::Kind::joined, record.name, record.rank});
      } else if (gone_.insert(record.incarnation).second) {
        if (auto known = by_name_.find(record.name);
            known != by_name_.end() && known->second->incarnation == record.incarnation)
          by_name_.erase(known);
        happened.push_back({PeerEvent::Kind::left, record.name, record.rank});
      }
    }
  }
  for (const PeerEvent& event : happened) report(event);
}

void Membership::watch(std::function<void(const PeerEvent&)> callback) {
  refresh();  // what was before is not told
  {
    MutexLock lock(mutex_);
    callbacks_.push_back(std::move(callback));
    if (callbacks_.size() > 1) return;
  }
  refresh_later();
}

void Membership::refresh_later() {
  runtime_->after(refresh_period, [weak = weak_from_this()] {
    std::shared_ptr<Membership> self = weak.lock();
    if (!self) return;
    self->runtime_->submit([weak] {
      std::shared_ptr<Membership> again = weak.lock();
      if (!again) return;
      {
        MutexLock lock(again->mutex_);
        if (again->callbacks_.empty()) return;
      }
      try {
        again->refresh();
      } catch (const std::exception& error) {
        // Running workers do not need it: only newcomers go unseen.
        VLOG(1) << "gradwire: " << error.what();
      }
      again->refresh_later();
    });
  });
}

void Membership::peer_gone(const net::Record& peer, GoneReason reason) {
  {
    MutexLock lock(mutex_);
    if (!gone_.insert(peer.incarnation).second) return;
    if (auto known = by_name_.find(peer.name);
        known != by_name_.end() && known->second->incarnation == peer.incarnation)
      by_name_.erase(known);
  }
  const auto kind = reason == GoneReason::left     ? PeerEvent::Kind::left
                    : reason == GoneReason::fenced ? PeerEvent::Kind::fenced
                                                   : PeerEvent::Kind::died;
  report({kind, peer.name, peer.rank});
}

void Membership::report(const PeerEvent& event) {
  {
    MutexLock lock(mutex_);
    if (callbacks_.empty()) return;
    to_report_.push_back(event);
    if (std::exchange(reporting_, true)) return;
  }
  runtime_->submit([self = shared_from_this()] { self->report_all(); });
}

void Membership::stop_watching() {
  const net::Threads::Blocked blocked;
  MutexLock lock(mutex_);
  callbacks_.clear();
  to_report_.clear();
  while (reporting_ && reporter_ != std::this_thread::get_id()) lock.wait(reported_);
}

// In the order of events, one at a time.
void Membership::report_all() {
  for (;;) {
    PeerEvent event;
    std::vector<std::function<void(const PeerEvent&)>> callbacks;
    {
      MutexLock lock(mutex_);
      if (to_report_.empty()) {
        reporting_ = false;
        reporter_ = {};
        reported_.notify_all();
        return;
      }
      reporter_ = std::this_thread::get_id();
      event = std::move(to_report_.front());
      to_report_.pop_front();
      callbacks = callbacks_;
    }
    for (const auto& callback : callbacks) try {
        callback(event);
      } catch (const std::exception& error) {
        LOG(ERROR) << "gradwire: the callback for what happens to peers threw (" << event.name << " "
                   << name_of(event.kind) << "): " << error.what();
      }
  }
}

}  // namespace gradwire
