// The dtypes that travel, under the wire's own numbers (docs/protocol-values.md has the same table).
//
// A number keeps its meaning whatever torch does with its own, so workers with different versions of torch talk to each
// other. The table has all dtypes of torch 2.15 except the quantized ones. A process finds those that its own torch has
// by their names. A tensor of another one is taken from the link whole, and refused by `assemble`.
#pragma once

#include <cstdint>
#include <string_view>

#include <c10/core/ScalarType.h>

namespace gradwire::wire {

struct Dtype {
  uint8_t number;
  uint8_t item_size;      // bytes
  std::string_view name;  // in c10::ScalarType
};

// A dtype that no torch has, so that tests can send one whatever torch they run with.
inline constexpr Dtype dtype_of_no_torch{255, 1, "NoTorchHasThis"};

// Null if no dtype has this number.
const Dtype* dtype_with_number(uint8_t number);

// Null for a dtype that does not travel: a quantized one, or one that is newer than the table.
const Dtype* dtype_of(c10::ScalarType dtype);

// ScalarType::Undefined if the torch of this process does not have the dtype.
c10::ScalarType in_this_torch(const Dtype& dtype);

}  // namespace gradwire::wire
