// What others may call: only what is registered.
//
//   gradwire::Registry registry;
//   registry.add(scale, [](torch::Tensor x, double by) { return x * by; });
//   registry.allow_operators("aten::*");
//   registry.add_script("model", torch::jit::load("model.pt"));
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "gradwire/base/error.h"
#include "gradwire/rpc/function.h"
#include "gradwire/rpc/future.h"
#include "gradwire/rpc/kept.h"
#include "gradwire/rpc/operators.h"
#include "gradwire/rpc/scripts.h"
#include "gradwire/rpc/task.h"
#include "gradwire/rpc/types.h"

namespace gradwire {

class Exchange;
class Passenger;
class WorkerCore;
template <class T>
class TypeEntry;

// What a passenger is made for.
struct PassengerPlace {
  std::shared_ptr<net::Runtime> runtime;
  std::shared_ptr<Exchange> exchange;
  std::weak_ptr<WorkerCore> core;
};

// What is called, as the request says it.
struct Target {
  enum class Kind : uint8_t { function = 0, op = 1, script = 2 };
  Kind kind = Kind::function;
  std::string name;
  // Of a function: its signature. Of a script: the method.
  std::string detail;
};

// How a call is answered: exactly once. Any thread.
class Reply {
 public:
  virtual ~Reply() = default;
  // Whether the result stays here: then `keep`, else `give`.
  virtual bool keeps() const = 0;
  virtual void keep(Kept kept) = 0;
  virtual void give(wire::Payload result) = 0;
  // The function threw.
  virtual void fail(const std::exception_ptr& error) = 0;
  // The call was not made: Gradwire refuses it, with an error of its own.
  virtual void refuse(const Error& error) = 0;
  // With an error that error_on_wire.h wrote before.
  virtual void fail_as_before(std::string error) = 0;
  // For the futures that a function returns.
  virtual std::shared_ptr<net::Runtime> runtime() = 0;
};

// Not for several threads at once; a worker that joins takes a copy.
class Registry {
 public:
  // Decodes the arguments, runs the function, answers: at once, or when a Future or Task that it returned is complete.
  using Body = std::function<void(wire::Payload&&, const std::shared_ptr<Reply>&)>;
  struct Entry {
    std::string signature;
    Body body;
    bool hidden = false;  // not listed where users are told what there is
  };

  // The body returns the function's result, or a Future or a Task of it: these hold no thread while they wait.
  template <class Result, class... Arguments, class Callable>
  void add(const Function<Result(Arguments...)>& function, Callable callable);

  // Operators by name or pattern ("aten::*", "mylib::work"): operators.h has the rules. None is allowed by default.
  void allow_operators(const std::string& pattern) { operators_.allow(pattern); }
  // A TorchScript module, or the functions of a compilation unit.
  void add_script(const std::string& name, const torch::jit::Module& module) { scripts_.add(name, module); }
  void add_script(const std::string& name, std::shared_ptr<torch::jit::CompilationUnit> functions) {
    scripts_.add(name, std::move(functions));
  }

  // A type whose objects can be made elsewhere and referred to: see rref/type_entry.h, where this is defined.
  template <class T>
  TypeEntry<T> add_type(std::string name);

  // For the layers above:
  // what rides along on the messages of a worker that joins with this registry;
  using PassengerMaker = std::function<std::shared_ptr<Passenger>(const PassengerPlace&)>;
  void add_passenger(PassengerMaker maker) { passenger_makers_.push_back(std::move(maker)); }
  const std::vector<PassengerMaker>& passenger_makers() const { return passenger_makers_; }
  // a function with a body of its own; throws InvalidArgumentError for a name that is taken;
  void add_entry(std::string name, Entry&& entry);
  // what has been added since then is not listed where users are told what there is;
  void hide_since(const Registry& before);
  // the types that were added.
  Types& types() { return types_; }
  const Types& types() const { return types_; }

  // Runs what the request names; the reply is given here or later. Throws NotFoundError, with what there is, and
  // InvalidArgumentError if the signature is another.
  void run(const Target& target, wire::Payload&& arguments, const std::shared_ptr<Reply>& reply) const;

 private:
  const Entry& find(const std::string& name, const std::string& signature) const;
  std::map<std::string, Entry, std::less<>> functions_;
  Operators operators_;
  Scripts scripts_;
  Types types_;
  std::vector<PassengerMaker> passenger_makers_;
};

namespace detail {

[[noreturn]] void refuse_arguments(const wire::MalformedError& error);

// What does not decode is refused in words.
template <class Decode>
auto decode_arguments(const Decode& decode) {
  try {
    return decode();
  } catch (const wire::MalformedError& error) {
    refuse_arguments(error);
  }
}

// With a value.
template <class Result, class Value>
void answer(Reply& reply, Value&& value) {
  if (reply.keeps())
    reply.keep({std::make_shared<Result>(std::forward<Value>(value)), &value_type<Result>()});
  else
    reply.give(wire::encode(static_cast<const Result&>(value)));
}

inline void answer_nothing(Reply& reply) {
  if (reply.keeps())
    reply.keep({nullptr, &value_type<void>()});
  else
    reply.give({});
}

// Answers with the value of a future when it is there.
template <class Result>
void answer_later(const std::shared_ptr<FutureStateOf<Result>>& state, const std::shared_ptr<Reply>& reply) {
  state->when_done([state, reply] {
    try {
      if constexpr (std::is_void_v<Result>) {
        state->value();
        answer_nothing(*reply);
      } else {
        answer<Result>(*reply, state->value());
      }
    } catch (...) {
      reply->fail(std::current_exception());
    }
  });
}

// Runs a function, and answers with what it returns: at once, or when a Future or Task that it returned is complete.
// `held` stays until then.
template <class Result, class Run>
void run_body(Run&& run, const std::shared_ptr<void>& held, const std::shared_ptr<Reply>& reply) {
  using Returned = std::decay_t<std::invoke_result_t<Run&>>;
  try {
    if constexpr (is_future<Returned>) {
      Returned future = run();
      if (held) future.state()->when_done([held] {});
      answer_later(future.state(), reply);
    } else if constexpr (is_task<Returned>) {
      auto state = std::make_shared<FutureStateOf<Result>>(reply->runtime());
      state->when_done([held] {});
      answer_later(state, reply);
      run().run_into(state);
    } else if constexpr (std::is_void_v<Result>) {
      run();
      answer_nothing(*reply);
    } else {
      answer<Result>(*reply, static_cast<Result>(run()));
    }
  } catch (...) {
    reply->fail(std::current_exception());
  }
}

}  // namespace detail

template <class Result, class... Arguments, class Callable>
void Registry::add(const Function<Result(Arguments...)>& function, Callable callable) {
  static_assert(std::is_invocable_v<Callable&, std::decay_t<Arguments>...>,
                "the body does not take the arguments of the function's signature");
  using Returned = std::invoke_result_t<Callable&, std::decay_t<Arguments>...>;
  static_assert(
      std::is_void_v<Result> ? std::is_void_v<Unwrapped<Returned>> : std::is_convertible_v<Unwrapped<Returned>, Result>,
      "the body does not return the result of the function's signature, nor a Future or Task of it");
  if constexpr (detail::is_future<Returned> || detail::is_task<Returned>)
    static_assert(std::is_same_v<Unwrapped<Returned>, Result>,
                  "a body that returns a Future or a Task returns one of exactly the function's result");
  add_entry(
      std::string(function.name()),
      {.signature = signature<Result, Arguments...>(),
       .body = [callable = std::make_shared<Callable>(std::move(callable))](wire::Payload&& payload,
                                                                            const std::shared_ptr<Reply>& reply) {
         using Values = std::tuple<std::decay_t<Arguments>...>;
         Values values =
             detail::decode_arguments([&] { return wire::decode_all<std::decay_t<Arguments>...>(std::move(payload)); });
         if constexpr (detail::is_task<Returned>) {
           // A coroutine may take its arguments by reference: they stay until it has ended.
           auto held = std::make_shared<std::pair<Values, std::shared_ptr<Callable>>>(std::move(values), callable);
           detail::run_body<Result>([&] { return std::apply(*callable, std::move(held->first)); }, held, reply);
         } else {
           detail::run_body<Result>([&]() -> Returned { return std::apply(*callable, std::move(values)); }, nullptr,
                                    reply);
         }
       }});
}

}  // namespace gradwire
