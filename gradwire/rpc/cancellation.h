// Cancellation of the function that runs here: its caller cancelled the call, or did not want to wait any longer.
//
//   while (!gradwire::cancelled()) ...                       // inside a function
//   std::stop_callback stop(gradwire::stop_token(), [&] { socket.close(); });
//
// It also cancels the calls that the function has under way then; those it begins afterwards (to clean up) it does not.
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

// Of one function that runs. Any thread.
class Cancellation {
 public:
  // Runs the callbacks of stop tokens: not under a lock.
  void request() GRADWIRE_EXCLUDES(mutex_);
  bool requested() GRADWIRE_EXCLUDES(mutex_);
  std::stop_token token() GRADWIRE_EXCLUDES(mutex_);
  // A call that the function makes.
  void add(const std::shared_ptr<FutureState>& call) GRADWIRE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  bool requested_ GRADWIRE_GUARDED_BY(mutex_) = false;
  std::optional<std::stop_source> source_ GRADWIRE_GUARDED_BY(mutex_);  // made when someone asks for a token
  std::vector<std::weak_ptr<FutureState>> calls_ GRADWIRE_GUARDED_BY(mutex_);
  size_t tidy_at_ GRADWIRE_GUARDED_BY(mutex_) = 16;
};

}  // namespace gradwire
