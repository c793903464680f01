#include "gradwire/rpc/future_state.h"

#include <algorithm>

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>

#include "gradwire/net/fork.h"
#include "gradwire/rpc/calls.h"

namespace gradwire {

FutureState::~FutureState() {
  if (error_ && !error_read_.load(std::memory_order_relaxed)) log_unread_error();
}

bool FutureState::fail(std::exception_ptr error, std::shared_ptr<const Subject> subject) {
  if (!claim()) return false;
  subject_ = std::move(subject);
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
  Canceller canceller;  // what it holds is let go without the lock
  {
    MutexLock lock(mutex_);
    done_.store(true, std::memory_order_release);
    continuations.swap(continuations_);
    canceller = std::move(canceller_);
  }
  done_signal_.notify();
  for (std::function<void()>& continuation : continuations) runtime_->submit(std::move(continuation));
}

bool FutureState::fails_with(FutureState& other) {
  std::exception_ptr error = other.error();
  if (!error) return false;
  fail(std::move(error), other.subject_);
  return true;
}

void FutureState::resolve() {
  if (std::exception_ptr failure = error()) std::rethrow_exception(std::move(failure));
}

std::exception_ptr FutureState::error() {
  if (!decoded_.load(std::memory_order_acquire)) {
    MutexLock lock(decoding_);
    if (!decoded_.load(std::memory_order_relaxed)) decode_arrived();
    decoded_.store(true, std::memory_order_release);
  }
  if (error_) error_read_.store(true, std::memory_order_relaxed);
  return error_;
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

void FutureState::log_unread_error() noexcept {
  if (!runtime_ || net::forked_child()) return;
  try {
    std::string worker, text;
    try {
      std::rethrow_exception(error_);
    } catch (const CancelledError&) {
      return;  // its owner cancelled it, or the worker left
    } catch (const Error& error) {
      worker = error.worker();
      text = error.what();
    } catch (const c10::Error& error) {
      text = error.what_without_backtrace();
    } catch (const std::exception& error) {
      text = error.what();
    } catch (...) {
      text = "an exception of an unknown type";
    }
    std::string what = "a Task or continuation";
    if (subject_)
      what = fmt::format("the call of \"{}\" at {}", subject_->function, subject_->worker);
    else
      // Its error is all that tells one Task from another.
      what += fmt::format(" ({}{})", text.substr(0, 100), worker.empty() ? "" : ", " + worker);
    runtime_->repeated_log().add(*runtime_, fmt::format("{} failed, and nobody asked for the result", what), text);
  } catch (const std::exception& error) {
    LOG(ERROR) << "gradwire: an error that nobody asked for cannot be logged: " << error.what();
  }
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

void FutureState::cancel(CancelledBy by) {
  Canceller canceller;
  {
    MutexLock lock(mutex_);
    if (done()) return;
    canceller = canceller_;
  }
  if (canceller)
    canceller(by);
  else if (std::shared_ptr<Calls> calls = calls_.lock())
    calls->cancel(call_);
}

void FutureState::cancel_by(Canceller canceller) {
  MutexLock lock(mutex_);
  canceller_.swap(canceller);
}

}  // namespace gradwire
