#include "gradwire/rpc/leaving.h"

#include <algorithm>

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gradwire {
namespace {

constexpr net::MessageType report_type{19};
constexpr net::MessageType round_type{20};
constexpr net::MessageType end_type{21};
constexpr net::MessageType who_type{22};
constexpr net::MessageType answer_type{23};

// For an answer to the question who is missing.
constexpr auto answer_time = std::chrono::seconds(2);

}  // namespace

std::shared_ptr<Leaving> Leaving::make(int rank, int world_size, std::shared_ptr<Exchange> exchange,
                                       std::shared_ptr<Membership> membership, std::shared_ptr<Calls> calls) {
  std::shared_ptr<Leaving> leaving(
      new Leaving(rank, world_size, std::move(exchange), std::move(membership), std::move(calls)));
  const auto handle = [&](net::MessageType type, auto act) {
    leaving->exchange_->on_message(
        type, [weak = std::weak_ptr(leaving), act](const Exchange::From& from, const Received& received) {
          if (std::shared_ptr<Leaving> self = weak.lock()) act(*self, from, wire::ByteReader(received.message.head));
        });
  };
  handle(report_type, [](Leaving& self, const Exchange::From& from, wire::ByteReader head) {
    Report report;
    report.round = head.take<uint64_t>();
    report.idle = head.take<bool>();
    report.calls = head.take<uint64_t>();
    report.functions = head.take<uint64_t>();
    report.sent = head.take<uint64_t>();
    report.received = head.take<uint64_t>();
    {
      MutexLock lock(self.mutex_);
      self.known_[from->rank] = from;
      self.reports_[from->incarnation] = report;
    }
    self.look_soon();
  });
  handle(round_type, [](Leaving& self, const Exchange::From&, wire::ByteReader head) {
    const auto round = head.take<uint64_t>();
    {
      MutexLock lock(self.mutex_);
      self.asked_round_ = round;
    }
    self.look_soon();
  });
  handle(end_type, [](Leaving& self, const Exchange::From&, const wire::ByteReader&) {
    MutexLock lock(self.mutex_);
    self.ended_ = true;
    self.changed_.notify_all();
  });
  handle(who_type, [](Leaving& self, const Exchange::From& from, const wire::ByteReader&) {
    // It asks the meeting point: not here.
    self.calls_->runtime()->submit([weak = self.weak_from_this(), from] {
      if (std::shared_ptr<Leaving> asked = weak.lock())
        asked->exchange_->tell(*from, {.type = answer_type, .head = asked->who_is_missing(), .payload = {}});
    });
  });
  handle(answer_type, [](Leaving& self, const Exchange::From&, wire::ByteReader head) {
    MutexLock lock(self.mutex_);
    self.answer_ = std::string(head.take_bytes(head.remaining()));
    self.changed_.notify_all();
  });
  leaving->exchange_->on_gone([weak = std::weak_ptr(leaving)](const net::Record& peer, GoneReason, const std::string&) {
    std::shared_ptr<Leaving> self = weak.lock();
    if (!self) return;
    {
      MutexLock lock(self->mutex_);
      self->gone_.insert(peer.incarnation);
      self->reports_.erase(peer.incarnation);
      if (!self->leaving_) return;
    }
    self->look_soon();
  });
  return leaving;
}

Leaving::Leaving(int rank, int world_size, std::shared_ptr<Exchange> exchange, std::shared_ptr<Membership> membership,
                 std::shared_ptr<Calls> calls)
    : rank_(rank),
      world_size_(world_size),
      exchange_(std::move(exchange)),
      membership_(std::move(membership)),
      calls_(std::move(calls)) {}

void Leaving::leave(std::chrono::steady_clock::time_point deadline) {
  {
    MutexLock lock(mutex_);
    leaving_ = true;
  }
  look_soon();
  {
    const net::Threads::Blocked blocked;
    MutexLock lock(mutex_);
    while (!ended_ && std::chrono::steady_clock::now() < deadline) {
      if (deadline == std::chrono::steady_clock::time_point::max())
        lock.wait(changed_);
      else
        lock.wait_until(changed_, deadline);
    }
    if (ended_) return;
  }
  const std::string missing = ask_who_is_missing();
  throw TimeoutError(
      fmt::format("{} could not leave in time; waited for: {}. It goes on serving; call leave again, or destroy the "
                  "worker to go at once",
                  calls_->name(), missing));
}

void Leaving::pause_between_readings(std::function<void()> pause) {
  MutexLock one_look(one_look_);
  between_readings_ = std::move(pause);
}

void Leaving::look_soon() {
  {
    MutexLock lock(mutex_);
    if (std::exchange(look_posted_, true)) return;
  }
  calls_->runtime()->submit([weak = weak_from_this()] {
    if (std::shared_ptr<Leaving> self = weak.lock()) self->look();
  });
}

void Leaving::look() {
  MutexLock one_look(one_look_);
  {
    MutexLock lock(mutex_);
    look_posted_ = false;
    if (!leaving_ || ended_) return;
  }
  for (int rank = 0; rank < rank_; ++rank)
    if (RecordPointer collector = living(rank)) return report_to(collector);
  collect();
}

Leaving::RecordPointer Leaving::living(int rank) {
  {
    MutexLock lock(mutex_);
    if (auto known = known_.find(rank); known != known_.end() && !gone_.contains(known->second->incarnation))
      return known->second;
  }
  try {
    RecordPointer record = membership_->find(rank);
    MutexLock lock(mutex_);
    if (gone_.contains(record->incarnation)) return nullptr;
    known_[rank] = record;
    return record;
  } catch (const std::exception& error) {
    // Without the meeting point those never met cannot be waited for.
    VLOG(1) << "gradwire: " << calls_->name() << " leaves without rank " << rank << ": " << error.what();
    return nullptr;
  }
}

// The numbers of a round are read after the round has begun: those from before it would be counted in two rounds, and
// the second would prove nothing.
void Leaving::report_to(const RecordPointer& collector) {
  uint64_t round;
  {
    MutexLock lock(mutex_);
    // A round belongs to the collector that began it.
    if (told_ != collector->incarnation && told_ != Incarnation::none) asked_round_ = 0;
    round = asked_round_;
  }
  if (between_readings_) between_readings_();
  const Calls::Activity activity = calls_->activity();
  const bool idle = activity.calls_under_way == 0 && activity.functions_running == 0;
  if (told_ != collector->incarnation || told_round_ != round || told_idle_ != idle) {
    told_ = collector->incarnation;
    told_round_ = round;
    told_idle_ = idle;
    wire::ByteWriter head;
    head.put(round);
    head.put(idle);
    head.put(uint64_t{activity.calls_under_way});
    head.put(uint64_t{activity.functions_running});
    head.put(activity.requests_sent);
    head.put(activity.requests_received);
    exchange_->tell(*collector, {.type = report_type, .head = head.take(), .payload = {}});
  }
  // Once: a worker that serves on must not report after every function.
  if (!idle)
    calls_->when_idle([weak = weak_from_this()] {
      if (std::shared_ptr<Leaving> self = weak.lock()) self->look_soon();
    });
}

void Leaving::collect() {
  std::vector<RecordPointer> others;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (rank == rank_) continue;
    // A message opens a session, so that the death of one that has not reported is noticed.
    RecordPointer other = living(rank);
    if (!other) continue;
    bool reported;
    {
      MutexLock lock(mutex_);
      reported = reports_.contains(other->incarnation);
    }
    try {
      if (!reported) exchange_->meet(*other);
    } catch (const PeerGoneError&) {
      continue;  // it is gone, or this worker is
    }
    others.push_back(std::move(other));
  }
  const Calls::Activity mine = calls_->activity();
  if (mine.calls_under_way > 0 || mine.functions_running > 0) {
    calls_->when_idle([weak = weak_from_this()] {
      if (std::shared_ptr<Leaving> self = weak.lock()) self->look_soon();
    });
    return;
  }
  std::pair<uint64_t, uint64_t> sums{mine.requests_sent, mine.requests_received};
  {
    MutexLock lock(mutex_);
    for (const RecordPointer& other : others) {
      auto report = reports_.find(other->incarnation);
      if (report == reports_.end() || !report->second.idle || report->second.round != round_) return;
      sums.first += report->second.sent;
      sums.second += report->second.received;
    }
  }
  const auto tell_all = [&](net::MessageType type, const std::string& head) {
    for (const RecordPointer& other : others) exchange_->tell(*other, {.type = type, .head = head, .payload = {}});
  };
  if (others.empty() || (sums.first == sums.second && last_sums_ == sums)) {
    // Before anybody returns from leave(), and may join again.
    std::set<Incarnation> members;
    for (const RecordPointer& other : others) members.insert(other->incarnation);
    {
      MutexLock lock(mutex_);
      members.insert(gone_.begin(), gone_.end());
    }
    membership_->end_group(std::move(members));
    tell_all(end_type, "");
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
    return;
  }
  last_sums_ = sums;
  ++round_;
  wire::ByteWriter head;
  head.put(round_);
  // The first rounds at once; if something is still under way (a death not yet seen by all), more slowly.
  if (++rounds_without_end_ <= 3) return tell_all(round_type, head.take());
  const auto pause = std::min(std::chrono::milliseconds(10) * rounds_without_end_, std::chrono::milliseconds(500));
  calls_->runtime()->after(pause, [exchange = exchange_, others, text = head.take()] {
    for (const RecordPointer& other : others) exchange->tell(*other, {.type = round_type, .head = text, .payload = {}});
  });
}

std::string Leaving::who_is_missing() {
  std::vector<std::string> missing;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (rank == rank_) continue;
    const RecordPointer other = living(rank);
    if (!other) continue;
    MutexLock lock(mutex_);
    auto report = reports_.find(other->incarnation);
    if (report == reports_.end())
      missing.push_back(other->name + " (has not called leave)");
    else if (!report->second.idle)
      missing.push_back(fmt::format("{} (has called leave; {} calls under way, {} functions running)", other->name,
                                    report->second.calls, report->second.functions));
  }
  const Calls::Activity mine = calls_->activity();
  MutexLock lock(mutex_);
  if (!leaving_)
    missing.push_back(calls_->name() + " (has not called leave)");
  else if (mine.calls_under_way > 0 || mine.functions_running > 0)
    missing.push_back(fmt::format("{} (has called leave; {} calls under way, {} functions running)", calls_->name(),
                                  mine.calls_under_way, mine.functions_running));
  if (missing.empty()) return "no one in particular: calls may still be under way between those who wait";
  return fmt::format("{}", fmt::join(missing, ", "));
}

std::string Leaving::ask_who_is_missing() {
  RecordPointer collector;
  for (int rank = 0; rank < rank_ && !collector; ++rank) collector = living(rank);
  if (!collector) return who_is_missing();
  {
    MutexLock lock(mutex_);
    answer_.reset();
  }
  exchange_->tell(*collector, {.type = who_type, .head = {}, .payload = {}});
  const auto deadline = std::chrono::steady_clock::now() + answer_time;
  MutexLock lock(mutex_);
  while (!answer_ && std::chrono::steady_clock::now() < deadline) lock.wait_until(changed_, deadline);
  return answer_ ? *answer_ : collector->name + " (it collects, and does not answer)";
}

}  // namespace gradwire
