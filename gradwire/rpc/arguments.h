// How the arguments of a call become what its signature says. Nothing is lost silently: what narrows (a floating number
// to an integer or to a smaller floating type) does not compile, and an integer that its parameter cannot hold throws.
#pragma once

#include <complex>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <c10/util/complex.h>

#include "gradwire/rpc/function.h"

namespace gradwire::detail {

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<std::complex<T>> = true;
template <class T>
inline constexpr bool is_complex<c10::complex<T>> = true;

// A std::pair or a std::tuple.
template <class T>
inline constexpr bool is_product = false;
template <class First, class Second>
inline constexpr bool is_product<std::pair<First, Second>> = true;
template <class... T>
inline constexpr bool is_product<std::tuple<T...>> = true;

// C++ takes any value that its one element takes for it.
template <class T>
inline constexpr bool is_tuple_of_one = false;
template <class T>
inline constexpr bool is_tuple_of_one<std::tuple<T>> = true;

template <size_t index, class Product>
using Element = std::decay_t<std::tuple_element_t<index, Product>>;

// Those of torch, such as at::Half, as well.
template <class T>
inline constexpr bool is_floating =
    std::numeric_limits<T>::is_specialized && !std::numeric_limits<T>::is_integer && !is_complex<T>;

template <class From, class To>
consteval bool narrows();

template <class From, class To, size_t... index>
consteval bool an_element_narrows(std::index_sequence<index...>) {
  return (narrows<Element<index, From>, Element<index, To>>() || ...);
}

// Whether a conversion that C++ would do silently changes what the caller wrote.
template <class From, class To>
consteval bool narrows() {
  if constexpr ((is_optional<To> && is_optional<From>) || (is_complex<To> && is_complex<From>))
    return narrows<typename From::value_type, typename To::value_type>();
  else if constexpr (is_optional<To> || is_complex<To>)
    return narrows<From, typename To::value_type>();
  else if constexpr (is_product<To> && is_product<From>)
    return an_element_narrows<From, To>(std::make_index_sequence<std::tuple_size_v<To>>());
  else if constexpr (is_tuple_of_one<To>)
    return narrows<From, Element<0, To>>();
  else if constexpr (is_floating<From> && is_floating<To>)
    return std::numeric_limits<To>::digits < std::numeric_limits<From>::digits ||
           std::numeric_limits<To>::max_exponent < std::numeric_limits<From>::max_exponent;
  else if constexpr (std::is_same_v<To, bool>)
    return is_floating<From> || std::is_pointer_v<From>;
  else
    return is_floating<From> && std::is_integral_v<To>;
}

template <class Given, class Parameter>
concept Convertible = std::is_convertible_v<Given&&, std::decay_t<Parameter>>;
template <class Given, class Parameter>
concept Narrowing = Convertible<Given, Parameter> && narrows<std::decay_t<Given>, std::decay_t<Parameter>>();

// Throws InvalidArgumentError.
[[noreturn]] void refuse_value(std::string_view function, size_t number, const std::string& value,
                               const std::string& type);

template <class To, class From>
bool holds(From number) {
  // Promoted: std::cmp_less takes neither bool nor the types of characters.
  return std::cmp_less_equal(+std::numeric_limits<To>::min(), +number) &&
         std::cmp_less_equal(+number, +std::numeric_limits<To>::max());
}

template <class To, class Given>
To to_parameter(std::string_view function, size_t number, Given&& given);

template <class To, class Given, size_t... index>
To to_product([[maybe_unused]] std::string_view function, [[maybe_unused]] size_t number,
              [[maybe_unused]] Given&& given, std::index_sequence<index...>) {
  return To(to_parameter<Element<index, To>>(function, number, std::get<index>(std::forward<Given>(given)))...);
}

// The parameter of this number (from 1) of the function.
template <class To, class Given>
To to_parameter(std::string_view function, size_t number, Given&& given) {
  using From = std::decay_t<Given>;
  if constexpr (std::same_as<To, From>) {
    return std::forward<Given>(given);
  } else if constexpr (is_optional<To> && is_optional<From>) {
    if (!given) return std::nullopt;
    return to_parameter<typename To::value_type>(function, number, *std::forward<Given>(given));
  } else if constexpr (is_optional<To> && !std::same_as<From, std::nullopt_t>) {
    if constexpr (std::is_convertible_v<Given&&, typename To::value_type>)
      return to_parameter<typename To::value_type>(function, number, std::forward<Given>(given));
    else
      return std::forward<Given>(given);
  } else if constexpr (is_product<To> && is_product<From>) {
    return to_product<To>(function, number, std::forward<Given>(given),
                          std::make_index_sequence<std::tuple_size_v<To>>());
  } else if constexpr (is_tuple_of_one<To>) {
    return To(to_parameter<Element<0, To>>(function, number, std::forward<Given>(given)));
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
