// Which types can be arguments and results. A type travels if gradwire::Codec<T> says how:
//
//   template <>
//   struct gradwire::Codec<Money> {
//     static void encode(wire::Encoder& encoder, const Money& money) { encoder.put(money.cents()); }
//     static Money decode(wire::Decoder& decoder) { return Money(decoder.take<int64_t>()); }
//     static std::string signature() { return "Money"; }   // the same at both ends, other than that of other types
//   };
//
// decode takes exactly what encode put, and throws MalformedError (decoder.bytes().fail(...)) for what encode cannot
// have put. A type that contains itself needs such a specialisation too; how deep values may nest is watched for it.
#pragma once

#include <concepts>
#include <string>

namespace gradwire {

namespace wire {
class Encoder;
class Decoder;
}  // namespace wire

// Without encode and decode: such a type does not travel.
template <class T>
struct Codec {};

namespace wire {

template <class T>
concept Travels = requires(Encoder& encoder, Decoder& decoder, const T& value) {
  Codec<T>::encode(encoder, value);
  { Codec<T>::decode(decoder) } -> std::same_as<T>;
  { Codec<T>::signature() } -> std::convertible_to<std::string>;
};

// Does not compile, with words that help, if T does not travel.
template <class T>
consteval bool check_travels() {
  static_assert(Travels<T>,
                "This type cannot travel between workers. What can: torch::Tensor, bool, integers, float, double, "
                "std::complex, std::string, enums, c10::IValue, std::optional, std::vector, std::array, std::pair, "
                "std::tuple, std::map, std::unordered_map and std::variant of types that travel, and plain structs "
                "with up to 16 such fields (public, no base class, no C arrays, references or pointers). "
                "For any other type, specialise gradwire::Codec<T>: see gradwire/wire/travels.h.");
  return Travels<T>;
}

}  // namespace wire
}  // namespace gradwire
