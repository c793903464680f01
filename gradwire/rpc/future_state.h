// What the copies of a future share with whoever completes it, whatever its type.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gradwire/base/mutex.h"
#include "gradwire/net/runtime.h"
#include "gradwire/net/session.h"
#include "gradwire/net/signal.h"
#include "gradwire/rpc/passenger.h"
#include "gradwire/wire/codec.h"

namespace gradwire {

// Who cancels: the owner of the future, by cancel(), or the cancellation of the function that began the work.
enum class CancelledBy { its_owner, its_function };

// Any thread.
class FutureState : public std::enable_shared_from_this<FutureState> {
 public:
  explicit FutureState(std::shared_ptr<net::Runtime> runtime) : runtime_(std::move(runtime)) {}
  // An error that nobody has read is logged: once for each function and worker, then counted.
  virtual ~FutureState();
  FutureState(const FutureState&) = delete;
  FutureState& operator=(const FutureState&) = delete;

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Done, and not with a value. Not while another thread takes the value.
  bool failed() const { return done() && error_ != nullptr; }
  // What failed, for the log: none for a Task or a continuation.
  struct Subject {
    std::string function;
    std::string worker;
  };
  // Q1: these complete it, unless it is complete: then they do nothing and return false.
  bool fail(std::exception_ptr error, std::shared_ptr<const Subject> subject = nullptr) GRADWIRE_EXCLUDES(mutex_);
  // Fails as the other did, which is done; returns false, and does nothing, if that has a value.
  bool fails_with(FutureState& other) GRADWIRE_EXCLUDES(mutex_);
  bool arrived(std::shared_ptr<net::Arrival> arrival, Luggage luggage) GRADWIRE_EXCLUDES(mutex_);

  // Blocks. On a user's thread it reads the session's link meanwhile; one of Gradwire's threads is replaced.
  void wait();
  // Runs `then` once, when it is complete, on Gradwire's threads.
  void when_done(std::function<void()> then) GRADWIRE_EXCLUDES(mutex_);
  // Cancels what completes it: the call, or the futures it was made of.
  void cancel(CancelledBy by = CancelledBy::its_owner) GRADWIRE_EXCLUDES(mutex_);

  using Canceller = std::function<void(CancelledBy)>;
  void cancel_by(Canceller canceller) GRADWIRE_EXCLUDES(mutex_);
  // Before others see it, of a call:
  void belongs_to(std::weak_ptr<class Calls> calls, uint64_t call) {
    calls_ = std::move(calls);
    call_ = call;
  }
  void read_while_waiting(std::shared_ptr<net::Session> session) { session_ = std::move(session); }

  const std::shared_ptr<net::Runtime>& runtime() const { return runtime_; }

 protected:
  // True for the one who may complete it: stores the outcome, then announces it.
  bool claim() { return !claimed_.exchange(true); }
  // For the one who claimed it and cannot store the value.
  void fail_claimed(std::exception_ptr error) GRADWIRE_EXCLUDES(mutex_);
  void announce() GRADWIRE_EXCLUDES(mutex_);
  // Once done: decodes what arrived, the first time, on the thread that wants it; throws the error if it is one.
  void resolve() GRADWIRE_EXCLUDES(decoding_);
  // The same; returns the error, or null for a value.
  std::exception_ptr error() GRADWIRE_EXCLUDES(decoding_);
  virtual void decode(wire::Payload&& payload) = 0;
  // How an error looks to those who wait for this.
  virtual std::exception_ptr seen(std::exception_ptr error) { return error; }

 private:
  void decode_arrived();
  void log_unread_error() noexcept;

  const std::shared_ptr<net::Runtime> runtime_;
  std::shared_ptr<net::Session> session_;
  std::weak_ptr<class Calls> calls_;
  uint64_t call_ = 0;

  std::atomic<bool> claimed_ = false;
  std::atomic<bool> done_ = false;
  // Written by who claimed it, before it is done; then by the one who decodes.
  std::exception_ptr error_;
  std::shared_ptr<const Subject> subject_;  // of the error
  std::atomic<bool> error_read_ = false;
  std::shared_ptr<net::Arrival> arrival_;
  Luggage luggage_;
  // Not a std::once_flag: that makes a system call each time it is passed first.
  std::atomic<bool> decoded_ = false;
  Mutex decoding_;

  net::Signal done_signal_;
  Mutex mutex_;
  Canceller canceller_ GRADWIRE_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> continuations_ GRADWIRE_GUARDED_BY(mutex_);
};

// With its value. Used by Future, Task and the registry.
template <class T>
class FutureStateOf : public FutureState {
 public:
  using FutureState::FutureState;
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  bool set(Value value) {
    if (!claim()) return false;
    try {
      value_.emplace(std::move(value));
    } catch (...) {
      fail_claimed(std::current_exception());
      return true;
    }
    announce();
    return true;
  }
  // Once done.
  Value& value() {
    resolve();
    return *value_;
  }

 private:
  void decode(wire::Payload&& payload) override {
    if constexpr (std::is_void_v<T>) {
      static_cast<void>(wire::decode_all<>(std::move(payload)));
      value_.emplace();
    } else if constexpr (wire::Travels<T>) {
      value_.emplace(wire::decode<T>(std::move(payload)));
    }
  }
  std::optional<Value> value_;
};

}  // namespace gradwire
