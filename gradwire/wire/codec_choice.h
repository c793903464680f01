// std::optional and std::variant: which one it is, then its value.
#pragma once

#include <optional>
#include <variant>

#include "gradwire/base/error.h"
#include "gradwire/wire/codec_scalar.h"

namespace gradwire {

template <wire::Travels T>
struct Codec<std::optional<T>> {
  static void encode(wire::Encoder& encoder, const std::optional<T>& value) {
    encoder.bytes().put(value.has_value());
    if (value) {
      encoder.put(*value);
    }
  }
  static std::optional<T> decode(wire::Decoder& decoder) {
    if (!decoder.bytes().take<bool>()) {
      return std::nullopt;
    }
    return std::optional<T>(decoder.take<T>());
  }
  static std::string signature() { return wire::template_name("optional", {Codec<T>::signature()}); }
};

template <wire::Travels... T>
struct Codec<std::variant<T...>> {
  static_assert(sizeof...(T) <= 256, "a variant travels with at most 256 alternatives");

  static void encode(wire::Encoder& encoder, const std::variant<T...>& value) {
    if (value.valueless_by_exception()) {
      throw InvalidArgumentError("a std::variant without a value cannot be sent");
    }
    encoder.bytes().put(static_cast<uint8_t>(value.index()));
    std::visit([&](const auto& alternative) { encoder.put(alternative); }, value);
  }

  static std::variant<T...> decode(wire::Decoder& decoder) {
    auto index = decoder.bytes().take<uint8_t>();
    if (index >= sizeof...(T)) {
      decoder.bytes().fail("alternative " + std::to_string(index) + " of a variant of " + std::to_string(sizeof...(T)));
    }
    return take_alternative<0>(decoder, index);
  }

  static std::string signature() { return wire::template_name("variant", {Codec<T>::signature()...}); }

 private:
  template <size_t I>
  static std::variant<T...> take_alternative(wire::Decoder& decoder, size_t index) {
    using Alternative = std::variant_alternative_t<I, std::variant<T...>>;
    if constexpr (I + 1 < sizeof...(T)) {
      if (index != I) {
        return take_alternative<I + 1>(decoder, index);
      }
    }
    return std::variant<T...>(std::in_place_index<I>, decoder.take<Alternative>());
  }
};

}  // namespace gradwire
