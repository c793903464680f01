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

constexpr auto refresh_period = std::chrono::milliseconds(250);
constexpr auto quiet_time = std::chrono::seconds(2);
constexpr auto farewell_patience = std::chrono::seconds(1);
// How soon the meeting point is asked again for a worker that is waited for: at first, and after a while.
constexpr auto first_look_period = std::chrono::milliseconds(10);
constexpr auto longest_look_period = std::chrono::milliseconds(160);

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

void Membership::end_group(std::set<Incarnation> members) noexcept {
  try {
    members.insert(mine()->incarnation);
    meeting_point_->keep_to(std::chrono::steady_clock::now() + farewell_patience);
    meeting_point_->end_generation(members);
  } catch (const std::exception& error) {
    VLOG(1) << "gradwire: " << mine()->name
            << " could not tell the meeting point that its group ends: " << error.what();
  }
  meeting_point_->keep_to(net::Time::max());
}

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

// The earlier life of its name, if that is not known to be gone and was not suspected: somebody has to find out.
Membership::RecordPointer Membership::replaced_by(const net::Record& record) {
  const auto known = by_name_.find(record.name);
  if (gone_.contains(record.incarnation) || known == by_name_.end()) return nullptr;
  RecordPointer before = known->second;
  return before->incarnation != record.incarnation && suspect(*before) ? before : nullptr;
}

std::optional<net::Record> Membership::look_up(int rank) {
  const std::optional<net::Record> found = meeting_point_->look_up(rank);
  return found ? meeting_point_->look_up(found->name) : found;
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
    found = look_up(key);
  } catch (const TimeoutError&) {
    if (known) return known;  // workers that know each other do not need the meeting point
    throw;
  }
  if (!found && known) return known;  // its event was read, and its record is still to be written
  if (found) {
    const auto record = std::make_shared<const net::Record>(*std::move(found));
    RecordPointer before, now;
    {
      MutexLock lock(mutex_);
      before = replaced_by(*record);
      if (note(record)) now = by_name_[record->name];
    }
    if (before) verify(before);
    if (now) return now;
    MutexLock lock(mutex_);
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
  for (auto pause = first_look_period;; pause = std::min(2 * pause, longest_look_period)) {
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
    std::this_thread::sleep_until(std::min(deadline, std::chrono::steady_clock::now() + pause));
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
        if (const RecordPointer before = replaced_by(record)) suspects.push_back(before);
        if (note(std::make_shared<const net::Record>(record))) report_joined(record);
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
      if (suspect(*known)) suspects.push_back(known);
      if (said_left) suspects_.at(record.incarnation).said_left = true;
    }
  }
  for (const RecordPointer& each : suspects) verify(each);
}

void Membership::refresh_quietly() noexcept {
  if (runtime_->now() < quiet_until_.load()) return;
  try {
    refresh();
  } catch (const std::exception& error) {
    // Running workers do not need it: only newcomers go unseen. Those that wait to ask it, too, need not wait long.
    quiet_until_ = runtime_->now() + quiet_time;
    VLOG(1) << "gradwire: " << error.what();
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

void Membership::close() {
  closed_ = true;
  events_->stop();
}

}  // namespace gradwire
