#include "gradwire/base/id.h"

#include <sys/random.h>

#include <system_error>

#include <fmt/format.h>

namespace gradwire {

Incarnation make_incarnation() {
  uint64_t value = 0;
  while (value == 0) {
    if (getrandom(&value, sizeof value, 0) != sizeof value && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return Incarnation{value};
}

std::string to_string(Incarnation incarnation) { return fmt::format("{:016x}", static_cast<uint64_t>(incarnation)); }

std::string to_string(const Id& id) { return fmt::format("{}:{}", to_string(id.maker), id.counter); }

}  // namespace gradwire
