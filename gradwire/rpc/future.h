// The result of a call, when it is there.
#pragma once

#include <exception>
#include <memory>

#include "gradwire/base/mutex.h"
#include "gradwire/net/session.h"
#include "gradwire/wire/codec.h"

namespace gradwire {

// Shared by the caller's future and the worker that completes it. Any thread.
class CallState {
 public:
  explicit CallState(std::shared_ptr<net::Session> session) : session_(std::move(session)) {}

  void complete(wire::Payload result) GRADWIRE_EXCLUDES(mutex_);
  void fail(std::exception_ptr error) GRADWIRE_EXCLUDES(mutex_);
  // Waits, reading the link meanwhile. Once.
  wire::Payload take() GRADWIRE_EXCLUDES(mutex_);

 private:
  bool done() GRADWIRE_EXCLUDES(mutex_);

  const std::shared_ptr<net::Session> session_;
  Mutex mutex_;
  bool done_ GRADWIRE_GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ GRADWIRE_GUARDED_BY(mutex_);
  wire::Payload result_ GRADWIRE_GUARDED_BY(mutex_);
  net::Waker* waker_ GRADWIRE_GUARDED_BY(mutex_) = nullptr;
};

template <class T>
class Future {
 public:
  explicit Future(std::shared_ptr<CallState> state) : state_(std::move(state)) {}
  T get() {
    if constexpr (std::is_void_v<T>)
      state_->take();
    else
      return wire::decode<T>(state_->take());
  }

 private:
  std::shared_ptr<CallState> state_;
};

}  // namespace gradwire
