// Who a worker is and where it can be reached: what it writes to the meeting point, and what opens its Hello.
#pragma once

#include <cstdint>
#include <string>

#include "gradwire/base/id.h"
#include "gradwire/wire/bytes.h"

namespace gradwire::net {

struct Record {
  std::string name;
  int32_t rank = -1;
  Incarnation incarnation = Incarnation::none;
  // Equal for processes that see the same Unix sockets: one host, one mount namespace.
  std::string host;
  uint32_t user = 0;
  std::string unix_path;    // empty: none
  std::string tcp_address;  // "host:port"; empty: none

  bool operator==(const Record&) const = default;
};

void encode(wire::ByteWriter& to, const Record& record);
Record decode_record(wire::ByteReader& from);
// Of one that others wrote: its name is a worker's name, and its texts are short and can be printed. Throws
// MalformedError.
void check_record(const Record& record);

// The host id of this process.
std::string host_of_process();

// "worker1 (rank 1, incarnation 00ab...)".
std::string to_string(const Record& record);

}  // namespace gradwire::net
