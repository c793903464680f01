// A function's name and signature, shared by caller and callee; the body may be anywhere.
//
//   inline constexpr gradwire::Function<torch::Tensor(torch::Tensor, double)> scale{"scale"};
#pragma once

#include <string>
#include <string_view>

#include "gradwire/wire/codec.h"

namespace gradwire {

namespace detail {

template <class T>
std::string signature_of() {
  if constexpr (std::is_void_v<T>)
    return "void";
  else
    return Codec<std::decay_t<T>>::signature();
}

}  // namespace detail

// "(Tensor, double) -> Tensor": what both ends must agree on.
template <class Result, class... Arguments>
const std::string& signature() {
  static const std::string text = [] {
    std::string arguments;
    ((arguments += (arguments.empty() ? "" : ", ") + detail::signature_of<Arguments>()), ...);
    return "(" + arguments + ") -> " + detail::signature_of<Result>();
  }();
  return text;
}

template <class Signature>
class Function;

template <class Result, class... Arguments>
class Function<Result(Arguments...)> {
 public:
  explicit constexpr Function(const char* name) : name_(name) {}
  constexpr std::string_view name() const { return name_; }

 private:
  const char* name_;
};

}  // namespace gradwire
