// The fields of a plain struct, found without a macro: how many there are is tried out by initialising it in braces,
// and a structured binding gives them names.
#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gradwire::wire {

inline constexpr size_t max_fields = 16;

namespace fields {

// The conversions below are declared only: their types are asked for. clang would have them defined for local types.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif

// Stands for a field of T, of whatever type. Not for T itself, or any struct could be made of one "field", by copying.
template <class T>
struct Anything {
  template <class Field>
    requires(!std::same_as<Field, T>)
  operator Field() const;
};

// Stands for a base class of T only.
template <class T>
struct AnyBase {
  template <class Base>
    requires(std::is_base_of_v<Base, T> && !std::same_as<Base, T>)
  operator Base() const;
};

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

template <class T, size_t>
using AnythingFor = Anything<T>;

// Whether T{x, x, ...} compiles, for so many x.
template <class T, size_t Count>
constexpr bool takes = []<size_t... I>(std::index_sequence<I...>) {
  return requires { T{std::declval<AnythingFor<T, I>>()...}; };
}(std::make_index_sequence<Count>());

// Whether T{x, ..., {}, x, ...} compiles.
template <class T, size_t Before, size_t After>
constexpr bool takes_with_empty = []<size_t... I, size_t... J>(std::index_sequence<I...>, std::index_sequence<J...>) {
  return requires { T{std::declval<AnythingFor<T, I>>()..., {}, std::declval<AnythingFor<T, J>>()...}; };
}(std::make_index_sequence<Before>(), std::make_index_sequence<After>());

// The largest number that it takes, from Most down. Fewer may not do: a field may have no default.
template <class T, size_t Most>
constexpr size_t largest_taken() {
  if constexpr (Most == 0 || takes<T, Most>) {
    return Most;
  } else {
    return largest_taken<T, Most - 1>();
  }
}

template <class T>
constexpr size_t taken = largest_taken<T, max_fields + 1>();

// The elements of a C array count one by one in `taken`, as braces inside braces may be left out. With {} for the
// array there is less room after it than with {} for any other field.
template <class T, size_t Position>
constexpr bool is_array_at = []<size_t... Extra>(std::index_sequence<Extra...>) {
  return !takes_with_empty<T, Position, taken<T> - Position - 1> &&
         (takes_with_empty<T, Position, sizeof...(Extra) - 1 - Extra> || ...);
}(std::make_index_sequence<taken<T> - Position - 1>());

template <class T>
constexpr bool has_array = []<size_t... I>(std::index_sequence<I...>) {
  return (is_array_at<T, I> || ...);
}(std::make_index_sequence<taken<T>>());

template <class T>
constexpr bool has_base = requires { T{std::declval<AnyBase<T>>()}; };

// Structured bindings then go by tuple_size and not by fields.
template <class T>
constexpr bool is_like_a_tuple = requires { std::tuple_size<T>::value; };

template <class T>
constexpr bool countable = taken<T> <= max_fields && (taken<T> > 0 || std::is_empty_v<T>);

}  // namespace fields

// A struct whose fields can be found: public ones only, no base class, no C arrays of several elements, not too many.
template <class T>
concept PlainStruct = std::is_class_v<T> && std::is_aggregate_v<T> && !fields::is_like_a_tuple<T> &&
                      !fields::has_base<T> && fields::countable<T> && !fields::has_array<T>;

template <PlainStruct T>
inline constexpr size_t field_count = fields::taken<T>;

// Calls visitor(field, field, ...).
template <PlainStruct T, class Visitor>
constexpr decltype(auto) with_fields([[maybe_unused]] const T& value, Visitor&& visitor) {
  constexpr size_t count = field_count<T>;
  if constexpr (count == 0) {
    return visitor();
  } else if constexpr (count == 1) {
    const auto& [a] = value;
    return visitor(a);
  } else if constexpr (count == 2) {
    const auto& [a, b] = value;
    return visitor(a, b);
  } else if constexpr (count == 3) {
    const auto& [a, b, c] = value;
    return visitor(a, b, c);
  } else if constexpr (count == 4) {
    const auto& [a, b, c, d] = value;
    return visitor(a, b, c, d);
  } else if constexpr (count == 5) {
    const auto& [a, b, c, d, e] = value;
    return visitor(a, b, c, d, e);
  } else if constexpr (count == 6) {
    const auto& [a, b, c, d, e, f] = value;
    return visitor(a, b, c, d, e, f);
  } else if constexpr (count == 7) {
    const auto& [a, b, c, d, e, f, g] = value;
    return visitor(a, b, c, d, e, f, g);
  } else if constexpr (count == 8) {
    const auto& [a, b, c, d, e, f, g, h] = value;
    return visitor(a, b, c, d, e, f, g, h);
  } else if constexpr (count == 9) {
    const auto& [a, b, c, d, e, f, g, h, i] = value;
    return visitor(a, b, c, d, e, f, g, h, i);
  } else if constexpr (count == 10) {
    const auto& [a, b, c, d, e, f, g, h, i, j] = value;
    return visitor(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (count == 11) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k] = value;
    return visitor(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (count == 12) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
    return visitor(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (count == 13) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = value;
    return visitor(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else if constexpr (count == 14) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = value;
    return visitor(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  } else if constexpr (count == 15) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = value;
    return visitor(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  } else {
    static_assert(count == max_fields);
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = value;
    return visitor(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
  }
}

// std::tuple of the types of the fields, as declared but for const. (A const reference binds to a bit-field too.)
template <PlainStruct T>
using FieldTypes = decltype(with_fields(std::declval<const T&>(), [](const auto&... field) {
  return std::type_identity<std::tuple<std::remove_cvref_t<decltype(field)>...>>();
}))::type;

}  // namespace gradwire::wire
