// Cancellation of the function that runs here: its caller cancelled the call, or did not want to wait any longer.
//
//   while (!gradwire::cancelled()) ...                       // inside a function
//   std::stop_callback stop(gradwire::stop_token(), [&] { socket.close(); });
//
// It also cancels what the function has under way then: its calls, and the Tasks and continuations that it began. What
// it begins afterwards (to clean up) is not cancelled.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "gradwire/base/mutex.h"

namespace gradwire {

class FutureState;

// Whether the function, Task or continuation that runs here was cancelled. False outside of one.
bool cancelled();
// Of the same; one that is never stopped outside of a function.
std::stop_token stop_token();

// Of one function that runs, or of one Task or continuation. Any thread.
class Cancellation {
 public:
  // Of a Task or continuation that completes `work` and is about to begin. cancel() on `work` then completes it with
  // CancelledError, cancels `source` (the future that a continuation waits for) and requests this. The cancellation
  // that is current here, if there is one, does the same but for `source`, which others may wait for too.
  static std::shared_ptr<Cancellation> of(const std::shared_ptr<FutureState>& work,
                                          const std::shared_ptr<FutureState>& source = nullptr);
  // The one of the function that `here` belongs to; null if there is none, or if nothing of that function is left.
  static std::shared_ptr<Cancellation> of_function(const std::shared_ptr<Cancellation>& here);

  // Runs the callbacks of stop tokens: not under a lock.
  void request() GRADWIRE_EXCLUDES(mutex_);
  bool requested() GRADWIRE_EXCLUDES(mutex_);
  std::stop_token token() GRADWIRE_EXCLUDES(mutex_);
  // A call or other work that begins here. False if the request came first: this work is not cancelled by it.
  bool add(const std::shared_ptr<FutureState>& work) GRADWIRE_EXCLUDES(mutex_);

 private:
  // Constant once made. A part belongs to a Task or continuation; the others belong to a function.
  bool part_ = false;
  bool began_cancelled_ = false;  // what it began under was cancelled already
  std::weak_ptr<Cancellation> function_;

  Mutex mutex_;
  bool requested_ GRADWIRE_GUARDED_BY(mutex_) = false;
  std::optional<std::stop_source> source_ GRADWIRE_GUARDED_BY(mutex_);  // made when someone asks for a token
  std::vector<std::weak_ptr<FutureState>> under_way_ GRADWIRE_GUARDED_BY(mutex_);
  size_t tidy_at_ GRADWIRE_GUARDED_BY(mutex_) = 16;
};

}  // namespace gradwire
