// Keeps strangers from filling the log: one line a second for each kind of event, with the number of those left out.
//
//   RateLimitedLog turned_away;  // one for each kind
//   if (const auto more = turned_away.admit(now)) LOG(WARNING) << "a stranger was turned away" << *more;
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "gradwire/base/mutex.h"

namespace gradwire {

// Any thread may use it.
class RateLimitedLog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit RateLimitedLog(std::chrono::nanoseconds period = std::chrono::seconds(1)) : period_(period) {}

  // Nothing if this one must be left out. Else what to append to the line: how many were left out since the last line.
  std::optional<std::string> admit(Time now) GRADWIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (last_ && now - *last_ < period_) {
      ++left_out_;
      return {};
    }
    last_ = now;
    const uint64_t left_out = left_out_;
    left_out_ = 0;
    return left_out == 0 ? "" : " (and " + std::to_string(left_out) + " more of this kind since the last such line)";
  }

 private:
  const std::chrono::nanoseconds period_;
  Mutex mutex_;
  std::optional<Time> last_ GRADWIRE_GUARDED_BY(mutex_);
  uint64_t left_out_ GRADWIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace gradwire
