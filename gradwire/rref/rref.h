// A reference to something that lives at a worker, its owner.
//
//   gradwire::RRef<Net> net = worker->peer("worker1").make<Net>(64, 10);             // built there, owned there
//   torch::Tensor y = net.call(&Net::forward, x).get();                              // runs at the owner
//   gradwire::RRef<torch::Tensor> r = worker->peer("worker2").remote(scale, y, 2.0);
//   torch::Tensor here = r.fetch().get();
//   gradwire::RRef<Config> mine = worker->share(Config{...});                        // an owner's own
//
// It may be an argument or a result of any call, and be kept there; it may be used before its value exists. The value
// is deleted when the last reference to it is gone, on whatever worker. Use after its owner is gone throws
// OwnerGoneError.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "gradwire/rpc/worker.h"
#include "gradwire/rref/fetch.h"
#include "gradwire/rref/method.h"
#include "gradwire/rref/reference.h"
#include "gradwire/rref/registered_type.h"

namespace gradwire {

namespace detail {

// Of a call on a reference: its callee is an owner.
template <class T>
class ReferenceState : public FutureStateOf<T> {
 public:
  using FutureStateOf<T>::FutureStateOf;

 protected:
  std::exception_ptr seen(std::exception_ptr error) override { return as_owner_gone(std::move(error)); }
};

// What a script takes a T for.
template <class T>
c10::TypePtr script_type() {
  if constexpr (std::is_same_v<T, at::Tensor> || std::is_same_v<T, std::string> || std::is_same_v<T, bool> ||
                std::is_same_v<T, int64_t> || std::is_same_v<T, double>)
    return c10::getTypePtrCopy<T>();
  else
    return c10::AnyType::get();
}

template <class T>
  requires std::is_same_v<Referred<T>, T>
Kept kept_value(T value) {
  return {std::make_shared<T>(std::move(value)), &value_type<T>()};
}
// Of a module's holder.
template <class T>
  requires(!std::is_same_v<Referred<T>, T>)
Kept kept_value(const T& holder) {
  return {holder.ptr(), &value_type<Referred<T>>()};
}

// What an owner's handle gives: the pointer, a tensor by value.
template <class T>
using Local = std::conditional_t<std::is_same_v<T, at::Tensor>, at::Tensor, std::shared_ptr<Referred<T>>>;

}  // namespace detail

// A copyable handle; all copies are the same reference. Any thread.
template <class T>
class RRef {
 public:
  // Calls a method at the owner, as Peer::call does a function.
  template <class Method, class... Given>
  auto call(Method method, Given&&... given) const {
    using Result = typename detail::MethodTraits<Method>::Result;
    auto [target, arguments] = request(method, std::forward<Given>(given)...);
    return begin<Result>(target, std::move(arguments));
  }
  // The same; the result stays there.
  template <class Method, class... Given>
  auto remote(Method method, Given&&... given) const {
    using Result = typename detail::MethodTraits<Method>::Result;
    auto [target, arguments] = request(method, std::forward<Given>(given)...);
    if (std::exception_ptr failure = reference_->failure()) std::rethrow_exception(failure);
    return RRef<Result>(owner().create(target, std::move(arguments)), timeout_);
  }

  // The value, brought here. Of a type that travels.
  Future<T> fetch() const {
    static_assert(std::is_void_v<T> || wire::Travels<T>,
                  "what this refers to cannot travel: call its methods, or fetch what they return");
    wire::Encoder encoder;
    if (!reference_->failure()) put_reference(encoder, reference_, ReferenceRider::Use::value);
    encoder.put(value_type<Referred<T>>().name);
    return begin<T>(fetch_target(), encoder.take());
  }
  T to_here() const { return fetch().get(); }

  // At the owner: the object itself, once it is there. Throws InvalidArgumentError elsewhere.
  detail::Local<T> local() const {
    const Kept kept = local_value(*reference_, value_type<Referred<T>>());
    if constexpr (std::is_same_v<T, at::Tensor>)
      return *static_cast<const at::Tensor*>(kept.value.get());
    else
      return std::static_pointer_cast<Referred<T>>(kept.value);
  }

  Peer owner() const {
    std::shared_ptr<WorkerCore> worker = worker_of(*reference_);
    const std::chrono::milliseconds limit = default_timeout(*worker);
    const Peer peer(std::move(worker), reference_->owner(), limit);
    return timeout_ ? peer.with_timeout(*timeout_) : peer;
  }
  bool is_owner() const { return reference_->is_owner(); }
  // Whether the owner knows of it: of what was made by `remote` and `make`, that it is there or failed.
  bool confirmed() const { return reference_->confirmed(); }
  Id id() const { return reference_->id(); }

  // The same reference, with another limit on the time of each operation.
  template <class Number, class Period>
  [[nodiscard]] RRef with_timeout(std::chrono::duration<Number, Period> timeout) const {
    RRef same = *this;
    same.timeout_ = Peer::limit(timeout);
    return same;
  }

  // For operators and scripts: a value of TorchScript's type RRef.
  c10::IValue ivalue() const { return ReferenceRider(reference_).for_script(detail::script_type<T>()); }
  operator c10::IValue() const { return ivalue(); }  // NOLINT(google-explicit-constructor): as tensors and numbers are
  // Throws InvalidArgumentError if the value is no reference of Gradwire's.
  static RRef from(const c10::IValue& value) { return RRef(reference_in(value), std::nullopt); }

  friend bool operator==(const RRef& a, const RRef& b) { return a.id() == b.id(); }
  friend std::string to_string(const RRef& reference) {
    return "RRef<" + value_type<Referred<T>>().name + "> " + to_string(reference.id()) + " at " +
           reference.reference_->owner()->name;
  }
  friend std::ostream& operator<<(std::ostream& out, const RRef& reference) { return out << to_string(reference); }

  // For Peer, Worker and the codec.
  explicit RRef(std::shared_ptr<Reference> reference, std::optional<std::chrono::nanoseconds> timeout = {})
      : reference_(std::move(reference)), timeout_(timeout) {}
  const std::shared_ptr<Reference>& reference() const { return reference_; }
  // For functions of the layers above that take a reference: a call at its owner.
  template <class Result>
  Future<Result> begin(const Target& target, wire::Payload arguments) const {
    const Peer peer = owner();
    auto state = std::make_shared<detail::ReferenceState<Result>>(peer.runtime());
    if (std::exception_ptr failure = reference_->failure())
      state->fail(std::move(failure));
    else
      peer.start(target, std::move(arguments), state);
    return Future<Result>(std::move(state));
  }

 private:
  template <class Method, class... Given>
  std::pair<Target, wire::Payload> request(Method method, Given&&... given) const {
    using Traits = detail::MethodTraits<Method>;
    static_assert(std::is_base_of_v<typename Traits::Class, Referred<T>>, "this is a method of another type");
    return encode_request<typename Traits::Result>(method, static_cast<typename Traits::Values*>(nullptr),
                                                   std::forward<Given>(given)...);
  }
  template <class Result, class Method, class... Values, class... Given>
  std::pair<Target, wire::Payload> encode_request(Method method, std::tuple<Values...>*, Given&&... given) const {
    const RegisteredType& type = registered_type(registry_of(*reference_), typeid(Referred<T>));
    Target target{Target::Kind::function, registered_method(type, detail::key_of(method)),
                  signature<Result, Values...>()};
    wire::Payload arguments = detail::encode_arguments<Values...>(target.name, std::forward<Given>(given)...);
    using Use = ReferenceRider::Use;
    arguments.riders.insert(arguments.riders.begin(), std::make_shared<ReferenceRider>(
                                                          reference_, *type.serialised ? Use::operation : Use::value));
    return {std::move(target), std::move(arguments)};
  }

  std::shared_ptr<Reference> reference_;
  std::optional<std::chrono::nanoseconds> timeout_;
};

template <class T>
struct Codec<RRef<T>> {
  static void encode(wire::Encoder& encoder, const RRef<T>& reference) {
    put_reference(encoder, reference.reference(), ReferenceRider::Use::value);
  }
  static RRef<T> decode(wire::Decoder& decoder) { return RRef<T>(take_reference(decoder)); }
  static std::string signature() { return wire::template_name("RRef", {value_type_name<Referred<T>>()}); }
};

template <class Result, class... Arguments, class... Given>
RRef<Result> Peer::remote(const Function<Result(Arguments...)>& function, Given&&... given) const {
  return RRef<Result>(create(target_of(function),
                             detail::encode_arguments<Arguments...>(function.name(), std::forward<Given>(given)...)),
                      timeout_);
}

template <class Result, class... Given>
RRef<Result> Peer::remote(std::string name, Given&&... given) const {
  return RRef<Result>(create({Target::Kind::function, std::move(name), signature<Result, wire::AsValue<Given>...>()},
                             wire::encode(static_cast<wire::AsValue<Given>>(std::forward<Given>(given))...)),
                      timeout_);
}

template <class... Given>
RRef<c10::IValue> Peer::remote_op(std::string name, Given&&... given) const {
  return RRef<c10::IValue>(create({Target::Kind::op, std::move(name), ""}, values(std::forward<Given>(given)...)),
                           timeout_);
}

template <class... Given>
RRef<c10::IValue> Peer::remote_script(std::string module, std::string method, Given&&... given) const {
  return RRef<c10::IValue>(
      create({Target::Kind::script, std::move(module), std::move(method)}, values(std::forward<Given>(given)...)),
      timeout_);
}

template <class T, class... Given>
RRef<T> Peer::make(Given&&... given) const {
  return RRef<T>(create({Target::Kind::function, type_name(typeid(Referred<T>)), "a type"},
                        encode_constructor_arguments(std::forward<Given>(given)...)),
                 timeout_);
}

template <class T>
RRef<std::decay_t<T>> Worker::share(T&& value) {
  return RRef<std::decay_t<T>>(share_kept(detail::kept_value<std::decay_t<T>>(std::forward<T>(value))));
}

template <class T>
RRef<T> Worker::share(std::shared_ptr<T> value) {
  return RRef<T>(share_kept({std::move(value), &value_type<T>()}));
}

}  // namespace gradwire

template <class T>
struct std::hash<gradwire::RRef<T>> {
  size_t operator()(const gradwire::RRef<T>& reference) const noexcept {
    return std::hash<gradwire::Id>()(reference.id());
  }
};
