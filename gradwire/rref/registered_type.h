// Types whose objects can be made elsewhere: looking them up, and choosing a constructor; with errors in words.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include "gradwire/rpc/registry.h"

namespace gradwire {

// Throws InvalidArgumentError if the caller's own registry does not have it.
const RegisteredType& registered_type(const Registry& registry, const std::type_info& type);
// The function that the method is, by its key.
const std::string& registered_method(const RegisteredType& type, const std::string& key);

namespace detail {

// At the call it is not known what a constructor takes: whole numbers travel as int64 and others as double, and are
// converted there, where nothing is lost.
template <class T>
inline constexpr bool is_number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
template <class T>
using Travelling =
    std::conditional_t<is_number<T>, std::conditional_t<std::is_integral_v<T>, int64_t, double>, wire::AsValue<T>>;

template <class T>
bool takes(const std::string& given, bool converted) {
  return given == Codec<Travelling<T>>::signature() ||
         (converted && std::is_floating_point_v<T> && given == Codec<int64_t>::signature());
}

// Moves on to the next of what is given.
template <class T>
T take_parameter(wire::Decoder& decoder, std::vector<std::string>::const_iterator& next) {
  [[maybe_unused]] const std::string& given = *next++;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(given == Codec<int64_t>::signature() ? static_cast<double>(decoder.take<int64_t>())
                                                               : decoder.take<double>());
  } else if constexpr (is_number<T>) {
    const auto number = decoder.take<int64_t>();
    if (!std::in_range<T>(number)) decoder.bytes().fail("a number that its parameter cannot hold");
    return static_cast<T>(number);
  } else {
    return decoder.take<T>();
  }
}

}  // namespace detail

// What they are, then they themselves.
template <class... Given>
wire::Payload encode_constructor_arguments(Given&&... given) {
  wire::Encoder encoder;
  encoder.put(std::vector<std::string>{Codec<detail::Travelling<std::decay_t<Given>>>::signature()...});
  (encoder.put(static_cast<detail::Travelling<std::decay_t<Given>>>(std::forward<Given>(given))), ...);
  return encoder.take();
}

// One way to make an object of a type.
struct Constructor {
  std::vector<std::string> parameters;
  // Whether it can be called with these; `converted`: whole numbers for others too.
  std::function<bool(const std::vector<std::string>& given, bool converted)> takes;
  // Takes the arguments out of the decoder; gives what makes the object.
  std::function<std::function<Kept()>(wire::Decoder&, const std::vector<std::string>& given)> prepare;
};
using Constructors = std::vector<Constructor>;

// Answers with what the constructor for these arguments makes. Throws InvalidArgumentError, with what there is.
void construct(const std::string& type, const Constructors& constructors, wire::Payload&& arguments, Reply& reply);

}  // namespace gradwire
