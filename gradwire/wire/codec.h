// Values to payloads and back.
//
//   struct Batch { torch::Tensor x, y; int epoch; };
//   wire::Payload payload = wire::encode(Batch{x, y, 3}, std::string("train"));
//   auto [batch, phase] = wire::decode_all<Batch, std::string>(std::move(payload));
//
// Which types travel, and how to make one travel: travels.h. The bytes: docs/protocol-values.md.
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "gradwire/wire/codec_choice.h"
#include "gradwire/wire/codec_ivalue.h"
#include "gradwire/wire/codec_map.h"
#include "gradwire/wire/codec_product.h"
#include "gradwire/wire/codec_scalar.h"
#include "gradwire/wire/codec_sequence.h"
#include "gradwire/wire/codec_struct.h"

namespace gradwire::wire {

// Throws InvalidArgumentError for a value that cannot travel although its type can.
template <class... T>
[[nodiscard]] Payload encode(const T&... value) {
  Encoder encoder;
  (encoder.put(value), ...);
  return encoder.take();
}

// Throws MalformedError unless the payload holds such values and nothing else.
template <class... T>
[[nodiscard]] std::tuple<T...> decode_all(Payload&& payload) {
  Decoder decoder(std::move(payload));
  std::tuple<T...> values{decoder.take<T>()...};
  decoder.expect_end();
  return values;
}

template <class T>
[[nodiscard]] T decode(Payload&& payload) {
  Decoder decoder(std::move(payload));
  T value = decoder.take<T>();
  decoder.expect_end();
  return value;
}

// What an argument of type T travels as, where no signature says: text of any kind as std::string, the rest as it is.
template <class T>
using AsValue =
    std::conditional_t<std::is_same_v<std::decay_t<T>, const char*> || std::is_same_v<std::decay_t<T>, char*> ||
                           std::is_same_v<std::decay_t<T>, std::string_view>,
                       std::string, std::decay_t<T>>;

}  // namespace gradwire::wire
