// The types of the elements of c10 lists and dicts, as bytes: one for the kind, then the types it is made of.
#pragma once

#include <ATen/core/jit_type.h>

#include "gradwire/wire/decoder.h"
#include "gradwire/wire/encoder.h"

namespace gradwire::wire {

// Types and values alike are told apart by this byte. The numbers are part of the protocol.
enum class Kind : uint8_t {
  any = 0,
  none = 1,
  boolean = 2,
  integer = 3,
  real = 4,
  complex = 5,
  string = 6,
  device = 7,
  tensor = 8,
  number = 9,     // a type only: integer, real or complex
  optional = 10,  // a type only
  list = 11,
  dict = 12,
  tuple = 13,
  unsigned_integer = 14,  // a value only: one too large for integer
  reference = 15,
};

// Throws InvalidArgumentError for a type whose values are not data.
void encode_type(Encoder& encoder, const c10::Type& type);

c10::TypePtr decode_type(Decoder& decoder);

// A key that c10's dicts can hash.
bool can_be_key(const c10::Type& type);

}  // namespace gradwire::wire
