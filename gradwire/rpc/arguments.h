// How the arguments of a call become what its signature says. Nothing is lost silently: what narrows (a floating number
// to an integer or to a smaller floating type) does not compile, and an integer that its parameter cannot hold throws.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "gradwire/rpc/function.h"

namespace gradwire::detail {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
inline constexpr bool is_integer = std::is_integral_v<T> || std::is_enum_v<T>;

// Whether a conversion that C++ would do silently changes what the caller wrote.
template <class From, class To>
consteval bool narrows() {
  if constexpr (is_optional<To> && is_optional<From>)
    return narrows<typename From::value_type, typename To::value_type>();
  else if constexpr (is_optional<To>)
    return narrows<From, typename To::value_type>();
  else if constexpr (std::is_floating_point_v<From> && std::is_floating_point_v<To>)
    return std::numeric_limits<To>::digits < std::numeric_limits<From>::digits;
  else if constexpr (std::is_same_v<To, bool>)
    return std::is_floating_point_v<From> || std::is_pointer_v<From>;
  else
    return std::is_floating_point_v<From> && std::is_integral_v<To>;
}

template <class Given, class Parameter>
concept Convertible = std::is_convertible_v<Given&&, std::decay_t<Parameter>>;
template <class Given, class Parameter>
concept Narrowing = narrows<std::decay_t<Given>, std::decay_t<Parameter>>();

// Throws InvalidArgumentError.
[[noreturn]] void refuse_value(std::string_view function, size_t number, const std::string& value,
                               const std::string& type);

template <class To, class From>
bool holds(From number) {
  // Promoted: std::cmp_less takes neither bool nor the types of characters.
  return std::cmp_less_equal(+std::numeric_limits<To>::min(), +number) &&
         std::cmp_less_equal(+number, +std::numeric_limits<To>::max());
}

// The parameter of this number (from 1) of the function.
template <class To, class Given>
To to_parameter(std::string_view function, size_t number, Given&& given) {
  using From = std::decay_t<Given>;
  if constexpr (is_optional<To> && is_optional<From>) {
    if (!given) return std::nullopt;
    return to_parameter<typename To::value_type>(function, number, *std::forward<Given>(given));
  } else if constexpr (is_optional<To> && is_integer<From>) {
    return to_parameter<typename To::value_type>(function, number, given);
  } else if constexpr (std::is_enum_v<From> && std::is_integral_v<To>) {
    return to_parameter<To>(function, number, static_cast<std::underlying_type_t<From>>(given));
  } else if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
    if (!holds<To>(given)) refuse_value(function, number, std::to_string(given), Codec<To>::signature());
    return static_cast<To>(given);
  } else {
    return static_cast<To>(std::forward<Given>(given));
  }
}

template <class... Arguments, size_t... number, class... Given>
wire::Payload encode_numbered([[maybe_unused]] std::string_view function, std::index_sequence<number...>,
                              Given&&... given) {
  return wire::encode(to_parameter<std::decay_t<Arguments>>(function, number + 1, std::forward<Given>(given))...);
}

// Converted to what the function's signature says.
template <class... Arguments, class... Given>
wire::Payload encode_arguments([[maybe_unused]] std::string_view function, Given&&... given) {
  static_assert(sizeof...(Arguments) == sizeof...(Given), "wrong number of arguments for this function");
  if constexpr (sizeof...(Arguments) == sizeof...(Given)) {
    static_assert((Convertible<Given, Arguments> && ...),
                  "an argument cannot be converted to what this function takes");
    static_assert((!Narrowing<Given, Arguments> && ...),
                  "an argument would lose its fraction or its precision: this function takes an integer, a bool or a "
                  "smaller floating type there. Convert it explicitly, for example with static_cast<float>(x)");
    if constexpr ((Convertible<Given, Arguments> && ...) && (!Narrowing<Given, Arguments> && ...))
      return encode_numbered<Arguments...>(function, std::index_sequence_for<Arguments...>(),
                                           std::forward<Given>(given)...);
  }
}

}  // namespace gradwire::detail
