#include "gradwire/net/meeting_point.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "gradwire/base/error.h"
#include "gradwire/net/private_path.h"

namespace gradwire::net {
namespace {

std::string name_key(const std::string& name) { return "gradwire/name/" + name; }
std::string rank_key(int rank) { return fmt::format("gradwire/rank/{}", rank); }
std::string incarnation_key(Incarnation incarnation) {
  return "gradwire/incarnation/" + gradwire::to_string(incarnation);
}

const std::string event_count_key = "gradwire/events";
std::string event_key(int64_t number) { return fmt::format("gradwire/event/{}", number); }

std::vector<uint8_t> bytes_of(const Record& record) {
  wire::ByteWriter writer;
  encode(writer, record);
  const std::string& text = writer.bytes();
  return {text.begin(), text.end()};
}

Record record_of(const std::vector<uint8_t>& bytes, const std::string& whom) {
  try {
    wire::ByteReader reader({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    Record record = decode_record(reader);
    reader.expect_end("a worker's record");
    return record;
  } catch (const wire::MalformedError& error) {
    throw InvalidArgumentError(
        fmt::format("the record of {} at the meeting point is malformed: {}", whom, error.what()));
  }
}

// The store's own errors become ours.
template <class Act>
void reach(const Act& act) {
  try {
    act();
  } catch (const c10::Error& error) {
    throw TimeoutError(fmt::format("the meeting point cannot be reached: {}", error.what_without_backtrace()));
  }
}

}  // namespace

StorePointer open_tcp_store(const std::string& host, uint16_t port, bool holds_it, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = holds_it;
  options.waitWorkers = false;
  options.timeout = timeout;
  options.multiTenant = true;
  try {
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  } catch (const c10::Error& error) {
    const std::string why = error.what_without_backtrace();
    if (holds_it)
      throw InvalidArgumentError(
          fmt::format("the store cannot be opened at {}:{} by rank 0, which holds it: {}. Choose another port "
                      "(MASTER_PORT) for all",
                      host, port, why));
    throw TimeoutError(
        fmt::format("the store at {}:{} cannot be reached: {}. Is rank 0, which holds it, up, and have all the same "
                    "address and port (MASTER_ADDR, MASTER_PORT)?",
                    host, port, why));
  }
}

StorePointer open_file_store(const std::string& path) {
  require_own_file(path, "the store (GRADWIRE_STORE)");
  return c10::make_intrusive<c10d::FileStore>(path, -1);
}

void MeetingPoint::publish(const Record& record) {
  const std::vector<uint8_t> bytes = bytes_of(record);
  reach([&] {
    store_->set(incarnation_key(record.incarnation), bytes);
    store_->set(name_key(record.name), bytes);
    if (record.rank >= 0) store_->set(rank_key(record.rank), bytes);
  });
}

std::optional<Record> MeetingPoint::claim_name(const Record& mine, const std::optional<Record>& instead_of) {
  const std::vector<uint8_t> wanted = bytes_of(mine);
  std::vector<uint8_t> there;
  reach([&] {
    there =
        store_->compareSet(name_key(mine.name), instead_of ? bytes_of(*instead_of) : std::vector<uint8_t>(), wanted);
  });
  if (there == wanted) return {};
  return record_of(there, mine.name);
}

std::optional<Record> MeetingPoint::look_up(const std::string& name) { return look_up_key(name_key(name), name); }

std::optional<Record> MeetingPoint::look_up(int rank) {
  return look_up_key(rank_key(rank), fmt::format("rank {}", rank));
}

std::optional<Record> MeetingPoint::look_up_key(const std::string& key, const std::string& whom) {
  std::optional<Record> record;
  reach([&] {
    if (store_->check({key})) record = record_of(store_->get(key), whom);
  });
  return record;
}

void MeetingPoint::add_event(const Event& event) {
  wire::ByteWriter writer;
  writer.put(static_cast<uint8_t>(event.kind));
  encode(writer, event.record);
  const std::string& text = writer.bytes();
  reach([&] {
    const int64_t number = store_->add(event_count_key, 1);
    store_->set(event_key(number), std::vector<uint8_t>(text.begin(), text.end()));
  });
}

void MeetingPoint::hint_gone(const Record& record) {
  int64_t tellers = 0;
  reach([&] { tellers = store_->add("gradwire/gone/" + gradwire::to_string(record.incarnation), 1); });
  if (tellers == 1) add_event({.kind = Event::Kind::said_gone, .record = record});
}

std::vector<MeetingPoint::Event> MeetingPoint::events_after(int64_t& known) {
  std::vector<Event> events;
  reach([&] {
    const int64_t count = store_->add(event_count_key, 0);
    while (known < count) {
      const std::string key = event_key(known + 1);
      // Its writer is about to set it. If it died before it could, the event is lost, and others go on.
      try {
        store_->wait({key}, std::chrono::seconds(1));
      } catch (const c10::Error&) {
        ++known;
        continue;
      }
      const std::vector<uint8_t> bytes = store_->get(key);
      wire::ByteReader reader({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      const auto kind = reader.take<uint8_t>();
      if (kind > static_cast<uint8_t>(Event::Kind::said_gone))
        throw wire::MalformedError(fmt::format("event of unknown kind {}", kind));
      events.push_back({Event::Kind{kind}, decode_record(reader)});
      ++known;
    }
  });
  return events;
}

int MeetingPoint::next_rank() {
  int64_t rank = 0;
  reach([&] { rank = store_->add("gradwire/ranks", 1) - 1; });
  return static_cast<int>(rank);
}

void MeetingPoint::wait_for_ranks(int rank, int count, std::chrono::milliseconds timeout) {
  const std::string all = "gradwire/all";
  reach([&] {
    // A worker that dies and comes back while the others still come is counted once.
    const std::string once = fmt::format("gradwire/counted/{}", rank);
    if (store_->add(once, 1) == 1 && store_->add("gradwire/counted", 1) >= count) store_->set(all, std::string("1"));
  });
  try {
    store_->wait({all}, timeout);
  } catch (const c10::Error& error) {
    std::vector<std::string> missing;
    reach([&] {
      for (int other = 0; other < count; ++other)
        if (store_->add(fmt::format("gradwire/counted/{}", other), 0) == 0) missing.push_back(std::to_string(other));
    });
    throw TimeoutError(
        fmt::format("not all of {} workers joined within {} ms; missing: rank {}. Are they started with "
                    "the same store and WORLD_SIZE?",
                    count, timeout.count(), fmt::join(missing, ", ")));
  }
}

Record MeetingPoint::find(const std::string& name, std::chrono::milliseconds timeout) {
  return find_key(name_key(name), name, timeout);
}

Record MeetingPoint::find(int rank, std::chrono::milliseconds timeout) {
  return find_key(rank_key(rank), fmt::format("rank {}", rank), timeout);
}

Record MeetingPoint::find(Incarnation incarnation, std::chrono::milliseconds timeout) {
  return find_key(incarnation_key(incarnation), "incarnation " + gradwire::to_string(incarnation), timeout);
}

Record MeetingPoint::find_key(const std::string& key, const std::string& whom, std::chrono::milliseconds timeout) {
  try {
    store_->wait({key}, timeout);
    return record_of(store_->get(key), whom);
  } catch (const c10::Error& error) {
    throw TimeoutError(fmt::format("{} did not join within {} ms, or the meeting point cannot be reached: {}", whom,
                                   timeout.count(), error.what_without_backtrace()));
  }
}

}  // namespace gradwire::net
