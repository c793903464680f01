#include "gradwire/rpc/future_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "gradwire/rpc/calls.h"

namespace gradwire {

bool FutureState::fail(std::exception_ptr error) {
  if (!claim()) return false;
  fail_claimed(std::move(error));
  return true;
}

void FutureState::fail_claimed(std::exception_ptr error) {
  error_ = seen(std::move(error));
  announce();
}

bool FutureState::arrived(std::shared_ptr<net::Arrival> arrival, Luggage luggage) {
  if (!claim()) return false;
  arrival_ = std::move(arrival);
  luggage_ = std::move(luggage);
  announce();
  return true;
}

void FutureState::announce() {
  std::vector<std::function<void()>> continuations;
  std::function<void()> canceller;  // what it holds is let go without the lock
  {
    MutexLock lock(mutex_);
    done_.store(true, std::memory_order_release);
    continuations.swap(continuations_);
    canceller = std::move(canceller_);
  }
  done_signal_.notify();
  for (std::function<void()>& continuation : continuations) runtime_->submit(std::move(continuation));
}

void FutureState::resolve() {
  if (!decoded_.load(std::memory_order_acquire)) {
    MutexLock lock(decoding_);
    if (!decoded_.load(std::memory_order_relaxed)) decode_arrived();
    decoded_.store(true, std::memory_order_release);
  }
  if (error_) std::rethrow_exception(error_);
}

void FutureState::decode_arrived() {
  if (!arrival_) return;
  try {
    wire::Payload payload = arrival_->take();
    luggage_.unload(payload);
    decode(std::move(payload));
  } catch (const wire::MalformedError& error) {
    const std::string worker = session_ ? session_->peer().name : "this worker";
    error_ = seen(std::make_exception_ptr(InvalidArgumentError(
        fmt::format("what {} returned cannot be used: {}", worker, error.what()), session_ ? worker : "")));
  } catch (...) {
    error_ = seen(std::current_exception());
  }
  arrival_.reset();
  luggage_ = {};
}

void FutureState::wait() {
  if (done()) return;
  net::Runtime::require_threads();
  done_signal_.wait(*runtime_, session_.get(), [this] { return done(); });
}

void FutureState::when_done(std::function<void()> then) {
  {
    MutexLock lock(mutex_);
    if (!done()) {
      continuations_.push_back(std::move(then));
      return;
    }
  }
  runtime_->submit(std::move(then));
}

void FutureState::cancel() {
  std::function<void()> canceller;
  {
    MutexLock lock(mutex_);
    if (done()) return;
    canceller = canceller_;
  }
  if (canceller)
    canceller();
  else if (std::shared_ptr<Calls> calls = calls_.lock())
    calls->cancel(call_);
}

void FutureState::cancel_by(std::function<void()> canceller) {
  MutexLock lock(mutex_);
  canceller_.swap(canceller);
}

}  // namespace gradwire
