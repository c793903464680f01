// Which parts a tensor has follows from the rest of its description, by one rule for sender and receiver.
#pragma once

#include <optional>
#include <string>

#include "gradwire/wire/tensor.h"

namespace gradwire::wire {

// Fills in description.parts. Returns what is wrong with the description, in words, if anything is: then no tensor
// can have it.
[[nodiscard]] std::optional<std::string> derive_parts(TensorDescription& description);

}  // namespace gradwire::wire
