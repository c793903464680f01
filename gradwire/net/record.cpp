#include "gradwire/net/record.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "gradwire/base/error.h"
#include "gradwire/base/worker_name.h"

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

void check_record(const Record& record) {
  try {
    check_worker_name(record.name);
  } catch (const InvalidArgumentError& error) {
    throw wire::MalformedError(error.what());
  }
  if (record.incarnation == Incarnation::none) throw wire::MalformedError("the incarnation is 0");
  constexpr size_t longest = 4096;  // of a path
  const std::array texts{std::pair("host", &record.host), std::pair("unix path", &record.unix_path),
                         std::pair("tcp address", &record.tcp_address)};
  for (const auto& [what, text] : texts) {
    if (text->size() > longest)
      throw wire::MalformedError(fmt::format("the {} has {} bytes; at most {}", what, text->size(), longest));
    if (std::ranges::any_of(*text, [](unsigned char byte) { return byte < ' ' || byte == 0x7f; }))
      throw wire::MalformedError(fmt::format("the {} holds a character that cannot be printed", what));
  }
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
