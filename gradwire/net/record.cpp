#include "gradwire/net/record.h"

#include <sys/stat.h>

#include <fstream>

#include <fmt/format.h>

#include "gradwire/base/error.h"
#include "gradwire/base/printable.h"
#include "gradwire/base/worker_name.h"

namespace gradwire::net {
namespace {

// A path of a Unix socket has at most 107 bytes, a name of the domain name system 253.
constexpr size_t longest_place = 512;

void check(const Record& record) {
  try {
    check_worker_name(record.name);
  } catch (const InvalidArgumentError& error) {
    throw wire::MalformedError(fmt::format("a record's name: {}", error.what()));
  }
  for (const std::string* text : {&record.host, &record.unix_path, &record.tcp_address})
    if (text->size() > longest_place || has_control_characters(*text))
      throw wire::MalformedError(fmt::format("a record of {} with a place of {} bytes that is none: {}", record.name,
                                             text->size(), printable(*text)));
}

}  // namespace

void encode(wire::ByteWriter& to, const Record& record) {
  to.put_string(record.name);
  to.put(record.rank);
  to.put(static_cast<uint64_t>(record.incarnation));
  to.put_string(record.host);
  to.put(record.user);
  to.put_string(record.unix_path);
  to.put_string(record.tcp_address);
}

Record decode_record(wire::ByteReader& from) {
  Record record;
  record.name = from.take_string();
  record.rank = from.take<int32_t>();
  record.incarnation = Incarnation{from.take<uint64_t>()};
  record.host = from.take_string();
  record.user = from.take<uint32_t>();
  record.unix_path = from.take_string();
  record.tcp_address = from.take_string();
  check(record);
  return record;
}

std::string host_of_process() {
  // The boot id tells the kernel; the mount namespace tells a container, where the same path is another file.
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat mounts{};
  if (stat("/proc/self/ns/mnt", &mounts) != 0) mounts.st_ino = 0;
  return fmt::format("{}/{}", boot, mounts.st_ino);
}

std::string to_string(const Record& record) {
  return fmt::format("{} (rank {}, incarnation {})", record.name, record.rank, gradwire::to_string(record.incarnation));
}

}  // namespace gradwire::net
