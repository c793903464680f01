#include "gradwire/wire/encoder.h"

#include <fmt/format.h>

#include "gradwire/base/error.h"

namespace gradwire::wire {

void Encoder::refuse_depth() {
  throw InvalidArgumentError(fmt::format("a value nested more than {} deep cannot be sent", max_depth));
}

}  // namespace gradwire::wire
