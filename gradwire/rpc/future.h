// The result of a call, when it is there.
//
//   gradwire::Future<torch::Tensor> f = peer.call(scale, x, 2.0);
//   f.then([](torch::Tensor y) { return y.sum(); }).get();
//   std::vector<torch::Tensor> all = gradwire::when_all(futures).get();
//   torch::Tensor z = co_await f;                                       // inside a gradwire::Task
//
// A continuation given to `then` runs on one of Gradwire's threads, never under a lock, with the surroundings (current
// worker, grad mode...) it was registered under.
#pragma once

#include <coroutine>
#include <tuple>
#include <utility>

#include "gradwire/rpc/cancellation.h"
#include "gradwire/rpc/future_state.h"
#include "gradwire/rpc/surroundings.h"

namespace gradwire {

template <class T>
class Future;
template <class T>
class Task;

namespace detail {

// What a function that returns a T, a Future<T> or a Task<T> results in.
template <class T>
struct Unwrapped {
  using type = T;
};
template <class T>
struct Unwrapped<Future<T>> {
  using type = T;
};
template <class T>
struct Unwrapped<Task<T>> {
  using type = T;
};
template <class T>
inline constexpr bool is_future = false;
template <class T>
inline constexpr bool is_future<Future<T>> = true;
template <class T>
inline constexpr bool is_task = false;
template <class T>
inline constexpr bool is_task<Task<T>> = true;

template <class F, class T>
decltype(auto) invoke_with(F& function, typename FutureStateOf<T>::Value& value) {
  if constexpr (std::is_void_v<T>)
    return function();
  else
    return function(value);
}

}  // namespace detail

template <class T>
using Unwrapped = typename detail::Unwrapped<T>::type;

// Copyable; all copies are the same future. Dropping it cancels nothing. Any thread.
template <class T>
class [[nodiscard]] Future {
 public:
  using State = FutureStateOf<T>;
  explicit Future(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Waits, and gives the value or throws the error. May be called again, on any copy.
  T get() const& {
    state_->wait();
    return copy();
  }
  T get() && {
    state_->wait();
    if constexpr (!std::is_void_v<T>)
      if (state_.use_count() == 1) {
        // use_count() orders nothing between threads. A copy that comes and goes does: it changes the count after
        // whoever dropped the other copies, and sees all that they did before, their last look at the value included.
        std::shared_ptr<State>(state_).reset();
        return std::move(state_->value());
      }
    return copy();
  }
  bool done() const { return state_->done(); }
  void wait() const { state_->wait(); }

  // Completes it with CancelledError, unless it is complete, and tells the callee (gradwire::cancelled() there). On the
  // future of a Task, or one made by `then`, also cancels what that has under way, and on one made by `then` the future
  // that it waits for; on one made by `when_all` or `when_any`, the futures it was made of.
  void cancel() const { state_->cancel(); }

  // What the function makes of the value, once that is there; a Future or a Task that it returns is waited for. If
  // this fails, so does the new one, and the function is not called.
  template <class F>
  auto then(F function) const;

  auto operator co_await() const;

  const std::shared_ptr<State>& state() const { return state_; }

 private:
  T copy() const {
    if constexpr (std::is_void_v<T>)
      state_->value();
    else
      return state_->value();
  }
  std::shared_ptr<State> state_;
};

namespace detail {

// Completes the state with what the function returns, now or when that is there, or throws.
template <class R, class F>
void fulfil(const std::shared_ptr<FutureStateOf<R>>& state, F&& function) {
  try {
    using Returned = decltype(function());
    if constexpr (is_task<Returned>) {
      function().run_into(state);
    } else if constexpr (is_future<Returned>) {
      auto source = function().state();
      source->when_done([state, source] {
        if (state->fails_with(*source)) return;
        try {
          state->set(source->value());
        } catch (...) {
          state->fail(std::current_exception());
        }
      });
    } else if constexpr (std::is_void_v<R>) {
      function();
      state->set({});
    } else {
      state->set(function());
    }
  } catch (...) {
    state->fail(std::current_exception());
  }
}

template <class T>
struct FutureAwaiter {
  std::shared_ptr<FutureStateOf<T>> state;
  bool await_ready() const { return state->done(); }
  void await_suspend(std::coroutine_handle<> waiting) const {
    state->when_done([waiting, surroundings = CapturedSurroundings::capture()] {
      surroundings.run([waiting] { waiting.resume(); });
    });
  }
  T await_resume() const {
    if constexpr (std::is_void_v<T>)
      state->value();
    else
      return state->value();
  }
};

}  // namespace detail

template <class T>
template <class F>
auto Future<T>::then(F function) const {
  using Result = Unwrapped<decltype(detail::invoke_with<F, T>(function, std::declval<typename State::Value&>()))>;
  auto next = std::make_shared<FutureStateOf<Result>>(state_->runtime());
  auto cancellation = Cancellation::of(next, state_);
  state_->when_done([source = state_, next, function = std::move(function),
                     surroundings = CapturedSurroundings::capture(std::move(cancellation))]() mutable {
    surroundings.run([&] {
      if (next->done() || next->fails_with(*source)) return;
      detail::fulfil(next, [&]() -> decltype(auto) { return detail::invoke_with<F, T>(function, source->value()); });
    });
  });
  return Future<Result>(std::move(next));
}

template <class T>
auto Future<T>::operator co_await() const {
  return detail::FutureAwaiter<T>{state_};
}

// All values, in order, or the first error as soon as there is one.
template <class T>
Future<std::conditional_t<std::is_void_v<T>, void, std::vector<typename FutureStateOf<T>::Value>>> when_all(
    std::vector<Future<T>> futures) {
  using Result = std::conditional_t<std::is_void_v<T>, void, std::vector<typename FutureStateOf<T>::Value>>;
  auto runtime = futures.empty() ? net::Runtime::of_process() : futures.front().state()->runtime();
  auto all = std::make_shared<FutureStateOf<Result>>(std::move(runtime));
  struct Shared {
    std::vector<Future<T>> futures;
    std::atomic<size_t> left;
  };
  auto shared = std::make_shared<Shared>();
  shared->left = futures.size();
  shared->futures = std::move(futures);
  all->cancel_by([shared](CancelledBy) {
    for (const Future<T>& future : shared->futures) future.cancel();
  });
  const auto complete = [shared, all = all.get()] {
    if constexpr (std::is_void_v<T>) {
      all->set({});
    } else {
      Result values;
      values.reserve(shared->futures.size());
      for (const Future<T>& future : shared->futures) values.push_back(future.state()->value());
      all->set(std::move(values));
    }
  };
  if (shared->futures.empty()) complete();
  for (const Future<T>& future : shared->futures)
    future.state()->when_done([all, shared, complete, state = future.state()] {
      if (all->fails_with(*state)) return;
      try {
        if (--shared->left == 0) complete();
      } catch (...) {
        all->fail(std::current_exception());
      }
    });
  return Future<Result>(std::move(all));
}

// Of different types; the result is a tuple, with std::monostate for void.
template <class... T>
  requires(sizeof...(T) > 0)
Future<std::tuple<typename FutureStateOf<T>::Value...>> when_all(Future<T>... futures) {
  using Result = std::tuple<typename FutureStateOf<T>::Value...>;
  std::vector<std::shared_ptr<FutureState>> states{futures.state()...};
  auto all = std::make_shared<FutureStateOf<Result>>(states.front()->runtime());
  all->cancel_by([states](CancelledBy) {
    for (const auto& state : states) state->cancel();
  });
  auto left = std::make_shared<std::atomic<size_t>>(sizeof...(T));
  const auto watch = [&](const auto& future) {
    future.state()->when_done([all, left, state = future.state(), futures...] {
      if (all->fails_with(*state)) return;
      try {
        if (--*left == 0) all->set(Result{futures.state()->value()...});
      } catch (...) {
        all->fail(std::current_exception());
      }
    });
  };
  (watch(futures), ...);
  return Future<Result>(std::move(all));
}

// The first that is complete: its place, and its value; or its error.
template <class T>
Future<std::pair<size_t, typename FutureStateOf<T>::Value>> when_any(std::vector<Future<T>> futures) {
  using Result = std::pair<size_t, typename FutureStateOf<T>::Value>;
  if (futures.empty()) throw InvalidArgumentError("when_any of no futures would never be complete: give it one");
  auto any = std::make_shared<FutureStateOf<Result>>(futures.front().state()->runtime());
  for (size_t i = 0; i < futures.size(); ++i)
    futures[i].state()->when_done([any, i, state = futures[i].state()] {
      if (any->fails_with(*state)) return;
      try {
        any->set({i, state->value()});
      } catch (...) {
        any->fail(std::current_exception());
      }
    });
  any->cancel_by([futures = std::move(futures)](CancelledBy) {
    for (const Future<T>& future : futures) future.cancel();
  });
  return Future<Result>(std::move(any));
}

}  // namespace gradwire
