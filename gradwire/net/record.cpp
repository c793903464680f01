#include "gradwire/net/record.h"

#include <sys/stat.h>

#include <fstream>

#include <fmt/format.h>

namespace gradwire::net {

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
