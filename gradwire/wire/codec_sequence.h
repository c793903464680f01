// std::vector and std::array. Numbers are copied in one go.
#pragma once

#include <array>
#include <complex>
#include <cstring>
#include <vector>

#include "gradwire/wire/codec_scalar.h"

namespace gradwire {

namespace wire {

// Any bytes are a value of such a type, and a sequence of them lies in memory as it goes over the wire.
template <class T>
concept Flat = (Scalar<T> && !std::same_as<T, bool>) || std::same_as<T, std::complex<float>> ||
               std::same_as<T, std::complex<double>>;

template <Flat T>
std::string_view bytes_of(const T* elements, size_t count) {
  return {reinterpret_cast<const char*>(elements), count * sizeof(T)};
}

template <Flat T>
void take_flat(Decoder& decoder, T* elements, size_t count) {
  // A pointer to no elements may be null, which memcpy does not take.
  if (count != 0) {
    std::string_view raw = decoder.bytes().take_bytes(count * sizeof(T));
    std::memcpy(static_cast<void*>(elements), raw.data(), raw.size());
  }
}

}  // namespace wire

template <wire::Travels T>
struct Codec<std::vector<T>> {
  static void encode(wire::Encoder& encoder, const std::vector<T>& value) {
    encoder.put_count(value.size());
    if constexpr (wire::Flat<T>) {
      encoder.bytes().put_bytes(wire::bytes_of(value.data(), value.size()));
    } else {
      for (const auto& element : value) {
        encoder.put<T>(element);
      }
    }
  }

  static std::vector<T> decode(wire::Decoder& decoder) {
    std::vector<T> value;
    if constexpr (wire::Flat<T>) {
      value.resize(decoder.bytes().take_count(sizeof(T)));
      wire::take_flat(decoder, value.data(), value.size());
    } else {
      size_t count = decoder.take_count();
      value.reserve(decoder.reservable<T>(count));
      for (size_t i = 0; i < count; ++i) {
        value.push_back(decoder.take<T>());
      }
    }
    return value;
  }

  static std::string signature() { return wire::template_name("vector", {Codec<T>::signature()}); }
};

template <wire::Travels T, size_t N>
struct Codec<std::array<T, N>> {
  static void encode(wire::Encoder& encoder, const std::array<T, N>& value) {
    if constexpr (wire::Flat<T>) {
      encoder.bytes().put_bytes(wire::bytes_of(value.data(), N));
    } else {
      for (const T& element : value) {
        encoder.put(element);
      }
    }
  }

  static std::array<T, N> decode(wire::Decoder& decoder) {
    if constexpr (wire::Flat<T>) {
      std::array<T, N> value;
      wire::take_flat(decoder, value.data(), N);
      return value;
    } else {
      return take_each(decoder, std::make_index_sequence<N>());
    }
  }

  static std::string signature() { return wire::template_name("array", {Codec<T>::signature(), std::to_string(N)}); }

 private:
  // In braces, elements are made in order, and need no default constructor.
  template <size_t... I>
  static std::array<T, N> take_each([[maybe_unused]] wire::Decoder& decoder, std::index_sequence<I...>) {
    return {(static_cast<void>(I), decoder.take<T>())...};
  }
};

}  // namespace gradwire
