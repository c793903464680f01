// Registering a type, so that its objects can be made elsewhere and called there:
//
//   registry.add_type<Net>("Net").constructor<int64_t, int64_t>().method("forward", &Net::forward);
//   registry.add_type<torch::nn::Linear>("Linear")                // a holder of torch::nn: its implementation is made
//       .constructor<int64_t, int64_t>()
//       .method("forward", &torch::nn::LinearImpl::forward);
//
// At the caller and at the owner. Methods of bases, const and noexcept ones are accepted, and ones that return a Future
// or a Task. Calls on one object may overlap; those of a type that is serialised() run one at a time, in the order in
// which they arrived.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "gradwire/rref/fetch.h"
#include "gradwire/rref/method.h"
#include "gradwire/rref/references.h"
#include "gradwire/rref/registered_type.h"

namespace gradwire {

// Not for several threads at once; not after the registry is gone.
template <class T>
class TypeEntry {
 public:
  using Object = Referred<T>;

  // How it can be made; several are told apart by what they are given.
  template <class... Parameters>
  TypeEntry& constructor() {
    static_assert(std::is_constructible_v<Object, Parameters...>, "the type has no such constructor");
    constructors_->push_back(
        {.parameters = {Codec<std::decay_t<Parameters>>::signature()...},
         .takes =
             []([[maybe_unused]] const std::vector<std::string>& given, [[maybe_unused]] bool converted) {
               if (given.size() != sizeof...(Parameters)) return false;
               bool good = true;
               [[maybe_unused]] auto next = given.begin();
               ((good = detail::takes<std::decay_t<Parameters>>(*next++, converted) && good), ...);
               return good;
             },
         .prepare = [](wire::Decoder& decoder, const std::vector<std::string>& given) -> std::function<Kept()> {
           [[maybe_unused]] auto next = given.begin();
           // In braces, from left to right.
           auto values =
               std::make_shared<std::tuple<std::decay_t<Parameters>...>>(std::tuple<std::decay_t<Parameters>...>{
                   detail::take_parameter<std::decay_t<Parameters>>(decoder, next)...});
           return [values] {
             return std::apply(
                 [](auto&... value) {
                   return Kept{std::make_shared<Object>(std::move(value)...), &value_type<Object>()};
                 },
                 *values);
           };
         }});
    return *this;
  }

  template <class Method>
  TypeEntry& method(const std::string& name, Method pointer) {
    using Traits = detail::MethodTraits<Method>;
    static_assert(std::is_base_of_v<typename Traits::Class, Object>, "this is a method of another type");
    add_method<typename Traits::Returned, typename Traits::Result>(name, pointer,
                                                                   static_cast<typename Traits::Values*>(nullptr));
    return *this;
  }

  // Calls on one object run one at a time, in the order of their arrival; a call from inside another is an error.
  TypeEntry& serialised() {
    *registered().serialised = true;
    return *this;
  }

 private:
  friend class Registry;
  TypeEntry(Registry& registry, std::string name) : registry_(registry), name_(std::move(name)) {
    registry_.add_entry(name_, {.signature = "a type",
                                .body = [name = name_, constructors = constructors_](
                                            wire::Payload&& arguments, const std::shared_ptr<Reply>& reply) {
                                  construct(name, *constructors, std::move(arguments), *reply);
                                }});
    RegisteredType& type = registry_.types()[typeid(Object)];
    if (!type.name.empty())
      throw InvalidArgumentError("this type is registered already, as \"" + type.name + "\": one name is enough");
    type.name = name_;
  }
  RegisteredType& registered() { return registry_.types()[typeid(Object)]; }

  template <class Returned, class Result, class Method, class... Values>
  void add_method(const std::string& name, Method pointer, std::tuple<Values...>*) {
    const std::string function = name_ + "." + name;
    registry_.add_entry(
        function,
        {.signature = signature<Result, Values...>(),
         .body = [pointer, type = name_, serialised = registered().serialised](wire::Payload&& payload,
                                                                               const std::shared_ptr<Reply>& reply) {
           std::shared_ptr<Reference> reference;
           const auto values = detail::decode_arguments([&] {
             wire::Decoder decoder(std::move(payload));
             reference = take_reference(decoder);
             auto taken = std::make_shared<std::tuple<Values...>>(std::tuple<Values...>{decoder.take<Values>()...});
             decoder.expect_end();
             return taken;
           });
           with_referent(reference, reply, [pointer, type, serialised, reference, values, reply](const Kept& kept) {
             if (kept.type->type != typeid(Object))
               throw InvalidArgumentError(to_string(*reference) + " refers to a " + kept.type->name +
                                          ", and was called as a " + type);
             const std::shared_ptr<Referent::Turn> turn = *serialised ? turn_for(*reference) : nullptr;
             const auto invoke = [pointer, kept, values, reply, turn] {
               auto* object = static_cast<Object*>(kept.value.get());
               detail::run_body<Result>(
                   [&]() -> Returned {
                     return std::apply(
                         [&](auto&... value) -> Returned { return (object->*pointer)(std::move(value)...); }, *values);
                   },
                   // What a coroutine's arguments refer to stays until it has ended.
                   std::make_shared<std::tuple<std::shared_ptr<void>, std::shared_ptr<void>, std::shared_ptr<void>>>(
                       kept.value, values, turn),
                   reply);
             };
             if (!turn) return invoke();
             turn->run([invoke, surroundings = CapturedSurroundings::capture()] { surroundings.run(invoke); },
                       reply->runtime());
           });
         }});
    registered().methods.push_back({.key = detail::key_of(pointer), .function = function});
  }

  Registry& registry_;
  const std::string name_;
  const std::shared_ptr<Constructors> constructors_ = std::make_shared<Constructors>();
};

template <class T>
TypeEntry<T> Registry::add_type(std::string name) {
  return TypeEntry<T>(*this, std::move(name));
}

}  // namespace gradwire
