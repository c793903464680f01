// What others may call: only what is registered.
//
//   gradwire::Registry registry;
//   registry.add(scale, [](torch::Tensor x, double by) { return x * by; });
#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "gradwire/base/error.h"
#include "gradwire/rpc/function.h"
#include "gradwire/wire/codec.h"

namespace gradwire {

// Not for several threads at once; a worker that joins takes a copy.
class Registry {
 public:
  using Body = std::function<wire::Payload(wire::Payload&&)>;

  template <class Result, class... Arguments, class Callable>
  void add(const Function<Result(Arguments...)>& function, Callable callable) {
    static_assert(std::is_invocable_r_v<Result, Callable, Arguments...>,
                  "the body does not fit the function's signature");
    functions_.insert_or_assign(std::string(function.name()),
                                [callable = std::move(callable)](wire::Payload&& arguments) {
                                  auto values = wire::decode_all<std::decay_t<Arguments>...>(std::move(arguments));
                                  if constexpr (std::is_void_v<Result>) {
                                    std::apply(callable, std::move(values));
                                    return wire::Payload{};
                                  } else {
                                    return wire::encode(static_cast<Result>(std::apply(callable, std::move(values))));
                                  }
                                });
  }

  // Throws NotFoundError, with what there is.
  const Body& find(const std::string& name) const;

 private:
  std::map<std::string, Body> functions_;
};

}  // namespace gradwire
