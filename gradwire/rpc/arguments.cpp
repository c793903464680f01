#include "gradwire/rpc/arguments.h"

#include <fmt/format.h>

#include "gradwire/base/error.h"

namespace gradwire::detail {

void refuse_value(std::string_view function, size_t number, const std::string& value, const std::string& type) {
  throw InvalidArgumentError(
      fmt::format("argument {} of \"{}\" is {}, and {} cannot hold that", number, function, value, type));
}

}  // namespace gradwire::detail
