// A coroutine that waits for calls without holding a thread:
//
//   gradwire::Task<torch::Tensor> twice(gradwire::Peer peer, torch::Tensor x) {
//     torch::Tensor y = co_await peer.call(scale, x, 2.0);
//     co_return co_await peer.call(scale, y, 2.0);
//   }
//   twice(peer, x).start().get();                 // or co_await twice(peer, x) in another Task
//   registry.add(function, twice_body);           // a function may return a Task
//
// It begins when it is started, awaited or returned by a function. Its surroundings (current worker, cancellation, grad
// mode...) go with it over every suspension, whatever thread it goes on with; a guard may live across a co_await.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

#include "gradwire/rpc/future.h"

namespace gradwire {

template <class T>
class Task;

namespace detail {

struct TaskPromiseBase {
  std::coroutine_handle<> continuation;
  std::exception_ptr error;

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct Final {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> task) noexcept {
      return task.promise().continuation;
    }
    void await_resume() noexcept {}
  };
  Final final_suspend() noexcept { return {}; }
  void unhandled_exception() { error = std::current_exception(); }
};

template <class T>
struct TaskPromise : TaskPromiseBase {
  Task<T> get_return_object();
  template <class Given>
  void return_value(Given&& given) {
    value.emplace(std::forward<Given>(given));
  }
  T result() {
    if (error) std::rethrow_exception(error);
    return std::move(*value);
  }
  std::optional<T> value;
};

template <>
struct TaskPromise<void> : TaskPromiseBase {
  Task<void> get_return_object();
  void return_void() {}
  void result() const {
    if (error) std::rethrow_exception(error);
  }
};

// Runs at once, and destroys itself when it is over.
struct Detached {
  struct Promise {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    [[noreturn]] void unhandled_exception() { std::terminate(); }
  };
  using promise_type = Promise;
};

}  // namespace detail

// Owned by one at a time, which may destroy it before it began; then it never runs.
template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // Begins it on one of Gradwire's threads, with the surroundings of now and a cancellation of its own.
  Future<T> start() && {
    require_coroutine();
    auto state = std::make_shared<FutureStateOf<T>>(net::Runtime::of_process());
    auto cancellation = Cancellation::of(state);
    state->runtime()->submit([state, surroundings = CapturedSurroundings::capture(std::move(cancellation)),
                              task = std::make_shared<Task>(std::move(*this))] {
      if (state->done()) return;  // cancelled before it began
      surroundings.run([&] { std::move(*task).run_into(state); });
    });
    return Future<T>(std::move(state));
  }

  // Begins it here; the state is completed when it is over. For the registry and futures.
  void run_into(std::shared_ptr<FutureStateOf<T>> state) && {
    require_coroutine();
    Surroundings surroundings = Surroundings::here();
    surroundings.in_task = true;
    CapturedSurroundings::capture().run([&] {
      Surroundings::here() = std::move(surroundings);
      drive(std::move(*this), std::move(state));
    });
  }

  auto operator co_await() && {
    require_coroutine();
    struct Awaiter {
      std::coroutine_handle<promise_type> task;
      std::optional<CapturedSurroundings> surroundings;
      bool await_ready() const { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) {
        surroundings = CapturedSurroundings::capture();
        task.promise().continuation = waiting;
        return task;
      }
      T await_resume() {
        surroundings->apply();
        return task.promise().result();
      }
    };
    return Awaiter{handle_, std::nullopt};
  }

 private:
  void require_coroutine() const {
    if (!handle_ || handle_.promise().continuation)
      throw InvalidArgumentError(
          "this Task was moved from, or has been started or awaited: each can be started or awaited once");
  }
  static detail::Detached drive(Task task, std::shared_ptr<FutureStateOf<T>> state) {
    try {
      if constexpr (std::is_void_v<T>) {
        co_await std::move(task);
        state->set({});
      } else {
        state->set(co_await std::move(task));
      }
    } catch (...) {
      state->fail(std::current_exception());
    }
  }
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {

template <class T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

}  // namespace detail
}  // namespace gradwire
