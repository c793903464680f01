#include "gradwire/wire/bytes.h"

#include <fmt/format.h>

namespace gradwire::wire {

size_t ByteReader::take_count(size_t minimum_bytes_per_element) {
  auto count = take<uint64_t>();
  if (count > remaining() / minimum_bytes_per_element) {
    fail(fmt::format("{} elements of at least {} bytes are announced, {} bytes are left", count,
                     minimum_bytes_per_element, remaining()));
  }
  return count;
}

void ByteReader::expect_end(const char* what) const {
  if (remaining() != 0) {
    fail(fmt::format("{} bytes are left over after {}", remaining(), what));
  }
}

bool ByteReader::take_bool() {
  auto value = take<uint8_t>();
  if (value > 1) {
    fail(fmt::format("a bool is 0 or 1, not {}", value));
  }
  return value == 1;
}

void ByteReader::fail_short(size_t wanted) const {
  fail(fmt::format("{} bytes are wanted, {} are left", wanted, remaining()));
}

void ByteReader::fail(const std::string& what) const {
  throw MalformedError(fmt::format("malformed bytes: {}, at byte {} of {}", what, position_, bytes_.size()));
}

}  // namespace gradwire::wire
