// std::pair and std::tuple: their elements, one after the other.
#pragma once

#include <tuple>
#include <utility>

#include "gradwire/wire/codec_scalar.h"

namespace gradwire {

template <wire::Travels First, wire::Travels Second>
struct Codec<std::pair<First, Second>> {
  static void encode(wire::Encoder& encoder, const std::pair<First, Second>& value) {
    encoder.put(value.first);
    encoder.put(value.second);
  }
  static std::pair<First, Second> decode(wire::Decoder& decoder) {
    // In braces, from left to right.
    return std::pair<First, Second>{decoder.take<First>(), decoder.take<Second>()};
  }
  static std::string signature() {
    return wire::template_name("pair", {Codec<First>::signature(), Codec<Second>::signature()});
  }
};

template <wire::Travels... T>
struct Codec<std::tuple<T...>> {
  static void encode([[maybe_unused]] wire::Encoder& encoder, const std::tuple<T...>& value) {
    std::apply([&](const T&... element) { (encoder.put(element), ...); }, value);
  }
  static std::tuple<T...> decode([[maybe_unused]] wire::Decoder& decoder) {
    return std::tuple<T...>{decoder.take<T>()...};
  }
  static std::string signature() { return wire::template_name("tuple", {Codec<T>::signature()...}); }
};

}  // namespace gradwire
