#include "gradwire/net/meeting_point.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "gradwire/base/error.h"

namespace gradwire::net {
namespace {

std::string name_key(const std::string& name) { return "gradwire/name/" + name; }
std::string rank_key(int rank) { return fmt::format("gradwire/rank/{}", rank); }
std::string incarnation_key(Incarnation incarnation) {
  return "gradwire/incarnation/" + gradwire::to_string(incarnation);
}

}  // namespace

StorePointer open_tcp_store(const std::string& host, uint16_t port, bool holds_it, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = holds_it;
  options.waitWorkers = false;
  options.timeout = timeout;
  options.multiTenant = true;
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

StorePointer open_file_store(const std::string& path) { return c10::make_intrusive<c10d::FileStore>(path, -1); }

void MeetingPoint::publish(const Record& record) {
  wire::ByteWriter writer;
  encode(writer, record);
  const std::string& text = writer.bytes();
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  store_->set(incarnation_key(record.incarnation), bytes);
  store_->set(name_key(record.name), bytes);
  if (record.rank >= 0) store_->set(rank_key(record.rank), bytes);
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
    const std::vector<uint8_t> bytes = store_->get(key);
    wire::ByteReader reader({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    Record record = decode_record(reader);
    reader.expect_end("a worker's record");
    return record;
  } catch (const wire::MalformedError& error) {
    throw InvalidArgumentError(
        fmt::format("the record of {} at the meeting point is malformed: {}", whom, error.what()));
  } catch (const c10::Error& error) {
    throw TimeoutError(fmt::format("{} did not join within {} ms, or the meeting point cannot be reached: {}", whom,
                                   timeout.count(), error.what_without_backtrace()));
  }
}

void MeetingPoint::gather(const std::string& key, int count, std::chrono::milliseconds timeout) {
  const std::string all = key + "/all";
  try {
    if (store_->add(key, 1) >= count) store_->set(all, std::string("1"));
    store_->wait({all}, timeout);
  } catch (const c10::Error& error) {
    throw TimeoutError(fmt::format("not all of {} workers came to {} within {} ms: {}", count, key, timeout.count(),
                                   error.what_without_backtrace()));
  }
}

}  // namespace gradwire::net
