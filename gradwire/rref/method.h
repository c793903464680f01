// Pointers to methods: what they take, what they give, and how they are told apart.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>

#include "gradwire/rpc/future.h"

namespace gradwire::detail {

template <class Method>
struct MethodTraits {
  static_assert(sizeof(Method) == 0, "this is not a pointer to a method: write &Net::forward");
};

template <class Class_, class Returned_, class... Arguments>
struct MethodTraitsOf {
  using Class = Class_;
  using Returned = Returned_;
  using Result = gradwire::Unwrapped<std::decay_t<Returned_>>;
  using Values = std::tuple<std::decay_t<Arguments>...>;
};

template <class C, class R, class... A>
struct MethodTraits<R (C::*)(A...)> : MethodTraitsOf<C, R, A...> {};
template <class C, class R, class... A>
struct MethodTraits<R (C::*)(A...) const> : MethodTraitsOf<C, R, A...> {};
template <class C, class R, class... A>
struct MethodTraits<R (C::*)(A...) noexcept> : MethodTraitsOf<C, R, A...> {};
template <class C, class R, class... A>
struct MethodTraits<R (C::*)(A...) const noexcept> : MethodTraitsOf<C, R, A...> {};
template <class C, class R, class... A>
struct MethodTraits<R (C::*)(A...)&> : MethodTraitsOf<C, R, A...> {};
template <class C, class R, class... A>
struct MethodTraits<R (C::*)(A...) const&> : MethodTraitsOf<C, R, A...> {};

// Equal for equal pointers of one type.
template <class Method>
std::string key_of(Method method) {
  std::string key(sizeof method, '\0');
  std::memcpy(key.data(), &method, sizeof method);
  return key + typeid(Method).name();
}

// What an RRef<T> refers to: a T; of a torch::nn holder, its implementation, which is what is made.
template <class T>
struct ReferredOf {
  using type = T;
};
template <class T>
  requires requires {
    typename T::ContainedType;
    typename T::Impl;
  }
struct ReferredOf<T> {
  using type = typename T::Impl;
};

}  // namespace gradwire::detail

namespace gradwire {

template <class T>
using Referred = typename detail::ReferredOf<T>::type;

}  // namespace gradwire
