// Numbers, enums, strings and tensors: what other values are made of.
#pragma once

#include <complex>
#include <string>
#include <type_traits>
#include <variant>

#include "gradwire/wire/decoder.h"
#include "gradwire/wire/encoder.h"
#include "gradwire/wire/type_name.h"

namespace gradwire {

template <wire::Scalar T>
struct Codec<T> {
  static void encode(wire::Encoder& encoder, T value) { encoder.bytes().put(value); }
  static T decode(wire::Decoder& decoder) { return decoder.bytes().take<T>(); }
  static std::string signature() {
    if constexpr (std::same_as<T, bool>) {
      return "bool";
    } else if constexpr (std::same_as<T, char>) {
      return "char";  // signed on one machine, unsigned on another
    } else if constexpr (std::floating_point<T>) {
      return sizeof(T) == 4 ? "float" : "double";
    } else {
      return (std::is_signed_v<T> ? "int" : "uint") + std::to_string(8 * sizeof(T));
    }
  }
};

// A value that the enum does not name arrives as it was sent.
template <class T>
  requires std::is_enum_v<T>
struct Codec<T> {
  static void encode(wire::Encoder& encoder, T value) { encoder.bytes().put(value); }
  static T decode(wire::Decoder& decoder) { return decoder.bytes().take<T>(); }
  static std::string signature() {
    return wire::short_name(typeid(T)) + ":" + Codec<std::underlying_type_t<T>>::signature();
  }
};

template <class T>
  requires std::same_as<T, float> || std::same_as<T, double>
struct Codec<std::complex<T>> {
  static void encode(wire::Encoder& encoder, const std::complex<T>& value) {
    encoder.bytes().put(value.real());
    encoder.bytes().put(value.imag());
  }
  static std::complex<T> decode(wire::Decoder& decoder) {
    T real = decoder.bytes().take<T>();
    T imaginary = decoder.bytes().take<T>();
    return {real, imaginary};
  }
  static std::string signature() { return wire::template_name("complex", {Codec<T>::signature()}); }
};

template <>
struct Codec<std::string> {
  static void encode(wire::Encoder& encoder, const std::string& value) { encoder.bytes().put_string(value); }
  static std::string decode(wire::Decoder& decoder) { return std::string(decoder.bytes().take_string()); }
  static std::string signature() { return "string"; }
};

template <>
struct Codec<at::Tensor> {
  static void encode(wire::Encoder& encoder, const at::Tensor& value) { encoder.put_tensor(value); }
  static at::Tensor decode(wire::Decoder& decoder) { return decoder.take_tensor(); }
  static std::string signature() { return "Tensor"; }
};

template <>
struct Codec<std::monostate> {
  static void encode(wire::Encoder&, const std::monostate&) {}
  static std::monostate decode(wire::Decoder&) { return {}; }
  static std::string signature() { return "monostate"; }
};

}  // namespace gradwire
