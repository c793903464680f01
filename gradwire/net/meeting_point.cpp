#include "gradwire/net/meeting_point.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gradwire/base/error.h"
#include "gradwire/net/patience.h"

namespace gradwire::net {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<uint8_t>;

constexpr auto answer_limit = std::chrono::seconds(10);
// For the last question of a worker whose time to join is over: who is missing?
constexpr auto grace = std::chrono::seconds(1);
constexpr auto event_limit = std::chrono::seconds(1);
// Of a count that somebody else may have written.
constexpr int64_t most_events_at_once = 1000;

// With all keys of all generations.
constexpr const char* group_key = "gradwire/group";

std::string name_key(const std::string& name) { return "name/" + name; }
std::string rank_key(int rank) { return fmt::format("rank/{}", rank); }
std::string event_key(int64_t number) { return fmt::format("event/{}", number); }

Bytes bytes_of(wire::ByteWriter& writer) {
  const std::string& text = writer.bytes();
  return {text.begin(), text.end()};
}

Bytes bytes_of(const Record& record) {
  wire::ByteWriter writer;
  encode(writer, record);
  return bytes_of(writer);
}

Bytes bytes_of(const MeetingPoint::Event& event) {
  wire::ByteWriter writer;
  writer.put(static_cast<uint8_t>(event.kind));
  encode(writer, event.record);
  return bytes_of(writer);
}

// Counted first: a number belongs to one event.
void append(c10d::Store& store, const std::string& prefix, const Bytes& event) {
  store.set(fmt::format("{}/{}", prefix, store.add(prefix + "s", 1)), event);
}

Bytes bytes_of(const MeetingPoint::Group& group) {
  if (group == MeetingPoint::Group()) return {};
  wire::ByteWriter writer;
  writer.put(group.generation);
  if (group.joined_last) encode(writer, *group.joined_last);
  return bytes_of(writer);
}

wire::ByteReader reader_of(const Bytes& bytes) {
  return wire::ByteReader({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Record take_record(wire::ByteReader& reader) {
  Record record = decode_record(reader);
  reader.expect_end("a worker's record");
  if (record.incarnation == Incarnation::none) throw wire::MalformedError("a record without an incarnation");
  return record;
}

Record record_of(const Bytes& bytes, const std::string& key, const std::string& place) {
  try {
    wire::ByteReader reader = reader_of(bytes);
    return take_record(reader);
  } catch (const wire::MalformedError& error) {
    throw InvalidArgumentError(
        fmt::format("the record at {} in {} is malformed: {}. Something else writes to this store; choose another one",
                    key, place, error.what()));
  }
}

MeetingPoint::Group group_of(const Bytes& bytes, const std::string& place) {
  if (bytes.empty()) return {};
  try {
    wire::ByteReader reader = reader_of(bytes);
    MeetingPoint::Group group{.generation = reader.take<int64_t>()};
    if (group.generation < 0) reader.fail("a generation before the first");
    if (reader.remaining() > 0) group.joined_last = take_record(reader);
    return group;
  } catch (const wire::MalformedError& error) {
    throw InvalidArgumentError(
        fmt::format("what is at {} in {} is malformed: {}. Something else writes to this store; choose another one",
                    group_key, place, error.what()));
  }
}

}  // namespace

// The act owns what it uses: it may outlive the call.
template <class Act>
auto MeetingPoint::question(Time deadline, Act act) {
  try {
    return questions_.ask(deadline, [store = store_, act = std::move(act)] { return act(*store); });
  } catch (const std::system_error& error) {
    throw OverloadedError(
        fmt::format("{} cannot be asked, because no thread can be started ({}): raise the limit on processes "
                    "(ulimit -u)",
                    place_, error.what()));
  }
}

// The store's own errors become ours.
template <class Act>
auto MeetingPoint::ask_by(Time deadline, Act act) {
  try {
    if (auto answer = question(deadline, std::move(act))) return *std::move(answer);
  } catch (const c10::Error& error) {
    throw TimeoutError(fmt::format("{} cannot be reached: {}", place_, error.what_without_backtrace()));
  }
  throw TimeoutError(fmt::format("{} does not answer. Is whoever serves it stopped or gone?", place_));
}

template <class Act>
auto MeetingPoint::ask(Act act) {
  return ask_by(std::min<Time>(deadline_, Clock::now() + answer_limit), std::move(act));
}

void MeetingPoint::end_generation(const std::set<Incarnation>& members) {
  const int64_t generation = generation_;
  Group there = group();
  while (there.generation == generation && (!there.joined_last || members.contains(there.joined_last->incarnation)))
    there = replace_group(there, {.generation = generation + 1});
}

std::string MeetingPoint::key(const std::string& rest) const {
  const int64_t generation = generation_;
  return generation == 0 ? "gradwire/" + rest : fmt::format("gradwire/generation{}/{}", generation, rest);
}

MeetingPoint::Group MeetingPoint::group() {
  return group_of(ask([](c10d::Store& store) { return store.check({group_key}) ? store.get(group_key) : Bytes(); }),
                  place_);
}

MeetingPoint::Group MeetingPoint::replace_group(const Group& expected, const Group& next) {
  return group_of(ask([before = bytes_of(expected), after = bytes_of(next)](c10d::Store& store) {
                    return store.compareSet(group_key, before, after);
                  }),
                  place_);
}

void MeetingPoint::publish(const Record& record) {
  if (record.rank < 0) return;
  ask([where = key(rank_key(record.rank)), bytes = bytes_of(record)](c10d::Store& store) {
    store.set(where, bytes);
    return true;
  });
}

std::optional<Record> MeetingPoint::claim_name(const Record& mine, const std::optional<Record>& instead_of) {
  const std::string where = key(name_key(mine.name));
  const Bytes wanted = bytes_of(mine);
  const Bytes there = ask([where, wanted, before = instead_of ? bytes_of(*instead_of) : Bytes()](c10d::Store& store) {
    return store.compareSet(where, before, wanted);
  });
  if (there == wanted) return {};
  return record_of(there, where, place_);
}

std::optional<Record> MeetingPoint::look_up(const std::string& name) { return look_up_key(key(name_key(name))); }

std::optional<Record> MeetingPoint::look_up(int rank) { return look_up_key(key(rank_key(rank))); }

std::optional<Record> MeetingPoint::look_up_key(const std::string& where) {
  const auto bytes = ask([where](c10d::Store& store) {
    return store.check({where}) ? std::optional(store.get(where)) : std::optional<Bytes>();
  });
  if (!bytes) return {};
  return record_of(*bytes, where, place_);
}

void MeetingPoint::add_event(const Event& event) {
  ask([prefix = key("event"), bytes = bytes_of(event)](c10d::Store& store) {
    append(store, prefix, bytes);
    return true;
  });
}

void MeetingPoint::hint_gone(const Record& record) {
  // In one question, so that a member that ends in the middle of it leaves little undone.
  ask([tellers = key("gone/" + gradwire::to_string(record.incarnation)), prefix = key("event"),
       bytes = bytes_of(Event{.kind = Event::Kind::said_gone, .record = record})](c10d::Store& store) {
    if (store.add(tellers, 1) == 1) append(store, prefix, bytes);
    return true;
  });
}

std::vector<MeetingPoint::Event> MeetingPoint::new_events(EventReader& reader) {
  const int64_t lost = Clock::now() - reader.missed_since_ >= event_limit ? reader.counted_ : 0;
  struct Batch {
    int64_t counted = 0;
    std::vector<std::optional<Bytes>> events;  // up to the first that may still come
  };
  const Batch batch = ask([prefix = key("event"), known = reader.known_, lost](c10d::Store& store) {
    // Read, and not added to: a file grows with each addition.
    Batch found;
    if (store.check({prefix + "s"})) {
      const Bytes text = store.get(prefix + "s");
      const char* begin = reinterpret_cast<const char*>(text.data());
      std::from_chars(begin, begin + text.size(), found.counted);
    }
    const int64_t most = std::min(found.counted - known, most_events_at_once);
    for (int64_t i = 1; i <= most; ++i) {
      const std::string where = fmt::format("{}/{}", prefix, known + i);
      if (store.check({where}))
        found.events.emplace_back(store.get(where));
      else if (known + i <= lost)
        found.events.emplace_back();
      else
        break;
    }
    return found;
  });
  std::vector<Event> events;
  for (const std::optional<Bytes>& bytes : batch.events) {
    ++reader.known_;
    if (bytes) read_event(reader, *bytes, events);
  }
  if (reader.known_ < batch.counted && reader.known_ >= reader.counted_) {
    reader.counted_ = batch.counted;
    reader.missed_since_ = Clock::now();
  }
  return events;
}

void MeetingPoint::read_event(EventReader& reader, const std::vector<uint8_t>& bytes, std::vector<Event>& events) {
  try {
    wire::ByteReader from = reader_of(bytes);
    const auto kind = from.take<uint8_t>();
    if (kind > static_cast<uint8_t>(Event::Kind::said_gone))
      throw wire::MalformedError(fmt::format("event of unknown kind {}", kind));
    events.push_back({Event::Kind{kind}, take_record(from)});
  } catch (const wire::MalformedError& error) {
    ++reader.malformed_;
    const Time now = Clock::now();
    if (now < reader.silent_until_) return;
    reader.silent_until_ = now + event_limit;
    LOG(WARNING) << fmt::format(
        "gradwire: {} in {} is malformed and is left out ({} so far): {}. Something else writes to this store",
        key(event_key(reader.known_)), place_, reader.malformed_, error.what());
  }
}

int MeetingPoint::next_rank() {
  return static_cast<int>(ask([counter = key("ranks")](c10d::Store& store) { return store.add(counter, 1) - 1; }));
}

void MeetingPoint::wait_for_ranks(const std::string& waiting, int count, Time deadline) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < count; ++rank) keys.push_back(key(rank_key(rank)));
  const Time began = Clock::now();
  Patience patience;
  for (;;) {
    // c10d waits for keys without a limit to its own answer: it gets a moment more than it should need.
    const Time until = std::min(deadline, patience.next());
    const auto slice =
        std::max(std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()), std::chrono::milliseconds(1));
    const auto all_there = question(until + grace, [keys, slice](c10d::Store& store) {
      try {
        store.wait(keys, slice);
        return true;
      } catch (const c10::Error&) {
        return false;
      }
    });
    if (all_there && *all_there) return;
    const bool is_late = Clock::now() >= deadline;
    const std::vector<int> missing =
        ask_by(is_late ? Clock::now() + grace : std::min<Time>(deadline, Clock::now() + answer_limit),
               [keys](c10d::Store& store) {
                 std::vector<int> ranks;
                 for (size_t rank = 0; rank < keys.size(); ++rank)
                   if (!store.check({keys[rank]})) ranks.push_back(static_cast<int>(rank));
                 return ranks;
               });
    if (missing.empty()) return;
    if (is_late)
      throw TimeoutError(fmt::format(
          "not all of {} workers joined within {} ms; missing: rank {}. Are they started with the same store ({}) and "
          "WORLD_SIZE?",
          count, std::chrono::duration_cast<std::chrono::milliseconds>(deadline - began).count(),
          fmt::join(missing, ", "), place_));
    if (patience.is_over())
      LOG(WARNING) << fmt::format("gradwire: {} waits in {} for rank {} of {} workers; gives up in {} s", waiting,
                                  place_, fmt::join(missing, ", "), count,
                                  std::chrono::duration_cast<std::chrono::seconds>(deadline - Clock::now()).count());
  }
}

}  // namespace gradwire::net
