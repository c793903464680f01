// c10::IValue, of data kinds: what operators and TorchScript functions take and give. Lists and dicts keep the types of
// their elements; a named tuple arrives as a plain one, since its name belongs to the script that made it.
#pragma once

#include <ATen/core/ivalue.h>

#include "gradwire/wire/codec_scalar.h"

namespace gradwire {

template <>
struct Codec<c10::IValue> {
  // Throws InvalidArgumentError, with the kind in words, for what is not data: PyObject, Future, Object...
  static void encode(wire::Encoder& encoder, const c10::IValue& value);
  static c10::IValue decode(wire::Decoder& decoder);
  static std::string signature() { return "IValue"; }
};

}  // namespace gradwire
