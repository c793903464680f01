// A function's name and signature, shared by caller and callee; the body may be anywhere.
//
//   inline constexpr gradwire::Function<torch::Tensor(torch::Tensor, double)> scale{"scale"};
#pragma once

#include <string_view>

namespace gradwire {

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
