// Plain structs: their fields, one after the other.
#pragma once

#include "gradwire/wire/codec_scalar.h"
#include "gradwire/wire/fields.h"

namespace gradwire {

namespace wire {

template <class Fields>
constexpr bool all_travel = false;

template <class... Field>
constexpr bool all_travel<std::tuple<Field...>> = (Travels<Field> && ...);

template <class T>
concept StructThatTravels = PlainStruct<T> && all_travel<FieldTypes<T>>;

}  // namespace wire

template <wire::StructThatTravels T>
struct Codec<T> {
  static void encode([[maybe_unused]] wire::Encoder& encoder, const T& value) {
    wire::with_fields(value, [&](const auto&... field) { (encoder.put(field), ...); });
  }

  static T decode(wire::Decoder& decoder) { return make(decoder, std::type_identity<wire::FieldTypes<T>>()); }

  static std::string signature() {
    return wire::short_name(typeid(T)) + signature_of(std::type_identity<wire::FieldTypes<T>>());
  }

 private:
  template <class... Field>
  static T make([[maybe_unused]] wire::Decoder& decoder, std::type_identity<std::tuple<Field...>>) {
    // In braces, from left to right.
    return T{decoder.take<Field>()...};
  }

  template <class... Field>
  static std::string signature_of(std::type_identity<std::tuple<Field...>>) {
    return wire::braced({Codec<Field>::signature()...});
  }
};

}  // namespace gradwire
