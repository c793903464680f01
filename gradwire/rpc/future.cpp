#include "gradwire/rpc/future.h"

namespace gradwire {

void CallState::complete(wire::Payload result) {
  MutexLock lock(mutex_);
  result_ = std::move(result);
  done_ = true;
  if (waker_ != nullptr) waker_->wake();
}

void CallState::fail(std::exception_ptr error) {
  MutexLock lock(mutex_);
  error_ = std::move(error);
  done_ = true;
  if (waker_ != nullptr) waker_->wake();
}

bool CallState::done() {
  MutexLock lock(mutex_);
  return done_;
}

wire::Payload CallState::take() {
  if (!done()) {
    net::Waker waker;
    {
      MutexLock lock(mutex_);
      waker_ = &waker;
    }
    session_->wait(waker, [this] { return done(); }, net::Time::max());
    MutexLock lock(mutex_);
    waker_ = nullptr;
  }
  MutexLock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  return std::move(result_);
}

}  // namespace gradwire
