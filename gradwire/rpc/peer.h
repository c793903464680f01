// Another worker (or this one), to be called.
//
//   gradwire::Peer peer = worker->peer("worker1");
//   torch::Tensor y = peer.call(scale, x, 2.0).get();                              // arguments checked at compile time
//   torch::Tensor z = peer.call<torch::Tensor>("scale", x, 2.0).get();             // by name: the callee checks
//   peer.with_timeout(500ms).call(slow).get();                                     // throws gradwire::TimeoutError
//   torch::Tensor sum = peer.op("aten::add.Tensor", a, b, 1).get().toTensor();
//   torch::Tensor out = peer.script("model", "forward", x).get().toTensor();
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "gradwire/net/record.h"
#include "gradwire/rpc/arguments.h"
#include "gradwire/rpc/future.h"
#include "gradwire/rpc/registry.h"

namespace gradwire {

template <class T>
class RRef;
class Reference;

// One incarnation of it: if the worker dies and comes back, calls on an old Peer fail with PeerGoneError, and
// Worker::peer gives a new one. A value is what it was at the call: tensors are copied into the message. What is wrong
// with the arguments throws at the call; everything else completes the future. Copyable; any thread.
class Peer {
 public:
  const std::string& name() const { return record_->name; }
  int rank() const { return record_->rank; }
  Incarnation incarnation() const { return record_->incarnation; }

  template <class Result, class... Arguments, class... Given>
  Future<Result> call(const Function<Result(Arguments...)>& function, Given&&... given) const {
    return begin<Result>(target_of(function),
                         detail::encode_arguments<Arguments...>(function.name(), std::forward<Given>(given)...));
  }

  template <class Result, class... Given>
  Future<Result> call(std::string name, Given&&... given) const {
    return begin<Result>(Target{Target::Kind::function, std::move(name), signature<Result, wire::AsValue<Given>...>()},
                         wire::encode(static_cast<wire::AsValue<Given>>(std::forward<Given>(given))...));
  }

  // An operator, by its name with or without overload, if the callee allows it.
  template <class... Given>
  Future<c10::IValue> op(std::string name, Given&&... given) const {
    return begin<c10::IValue>(Target{Target::Kind::op, std::move(name), ""}, values(std::forward<Given>(given)...));
  }

  // A method of a TorchScript module that the callee has registered.
  template <class... Given>
  Future<c10::IValue> script(std::string module, std::string method, Given&&... given) const {
    return begin<c10::IValue>(Target{Target::Kind::script, std::move(module), std::move(method)},
                              values(std::forward<Given>(given)...));
  }

  // Calls whose result stays there, and a reference to it comes back at once: see rref/rref.h, where these are defined.
  template <class Result, class... Arguments, class... Given>
  RRef<Result> remote(const Function<Result(Arguments...)>& function, Given&&... given) const;
  template <class Result, class... Given>
  RRef<Result> remote(std::string name, Given&&... given) const;
  template <class... Given>
  RRef<c10::IValue> remote_op(std::string name, Given&&... given) const;
  template <class... Given>
  RRef<c10::IValue> remote_script(std::string module, std::string method, Given&&... given) const;
  // An object of a registered type, made there.
  template <class T, class... Given>
  RRef<T> make(Given&&... given) const;

  // The same peer, with another limit on the time of each call; no_timeout for none.
  template <class Number, class Period>
  [[nodiscard]] Peer with_timeout(std::chrono::duration<Number, Period> timeout) const {
    Peer peer = *this;
    peer.timeout_ = limit(timeout);
    return peer;
  }
  static constexpr std::chrono::nanoseconds no_timeout = std::chrono::nanoseconds::max();

 private:
  friend class Worker;
  template <class T>
  friend class RRef;
  Peer(std::shared_ptr<WorkerCore> worker, std::shared_ptr<const net::Record> record, std::chrono::milliseconds timeout)
      : worker_(std::move(worker)), record_(std::move(record)), timeout_(limit(timeout)) {}

  // What is longer than a century is no limit, and would not fit into nanoseconds.
  template <class Number, class Period>
  static std::chrono::nanoseconds limit(std::chrono::duration<Number, Period> timeout) {
    return timeout < std::chrono::hours(24 * 365 * 100) ? std::chrono::duration_cast<std::chrono::nanoseconds>(timeout)
                                                        : no_timeout;
  }
  template <class Result, class... Arguments>
  static Target target_of(const Function<Result(Arguments...)>& function) {
    return {Target::Kind::function, std::string(function.name()), signature<Result, Arguments...>()};
  }
  template <class... Given>
  static wire::Payload values(Given&&... given) {
    return wire::encode(std::vector<c10::IValue>{c10::IValue(std::forward<Given>(given))...});
  }
  template <class Result>
  Future<Result> begin(const Target& target, wire::Payload arguments) const {
    auto state = std::make_shared<FutureStateOf<Result>>(runtime());
    start(target, std::move(arguments), state);
    return Future<Result>(std::move(state));
  }
  // The reference to what the call will make.
  std::shared_ptr<Reference> create(const Target& target, wire::Payload arguments) const;
  // What the type is registered as here.
  std::string type_name(const std::type_info& type) const;
  const std::shared_ptr<net::Runtime>& runtime() const;
  void start(const Target& target, wire::Payload arguments, const std::shared_ptr<FutureState>& state) const;

  std::shared_ptr<WorkerCore> worker_;
  std::shared_ptr<const net::Record> record_;
  std::chrono::nanoseconds timeout_;
};

}  // namespace gradwire
