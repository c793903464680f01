// Where deferred work runs: one thread at a time, in the order it became due. Everything in net that needs a timer
// or a turn of its own takes it from here, so that tests can replace time and order by a seeded schedule.
#pragma once

#include <chrono>
#include <functional>

namespace gradwire::net {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::steady_clock::time_point;

// Time::max() for a limit that lies beyond what the clock can tell, as milliseconds::max() does.
inline Time deadline_after(std::chrono::milliseconds limit) {
  const Time now = std::chrono::steady_clock::now();
  return limit >= std::chrono::duration_cast<std::chrono::milliseconds>(Time::max() - now) ? Time::max() : now + limit;
}

// Any thread may call these.
class Loop {
 public:
  using Task = std::function<void()>;

  virtual ~Loop() = default;
  virtual Time now() const = 0;
  // Runs the task soon, never inside this call.
  virtual void post(Task task) = 0;
  // Runs the task once, not before the delay is over. There is no cancelling: a task checks whether it still
  // matters, and holds what it needs weakly.
  virtual void after(Duration delay, Task task) = 0;
};

}  // namespace gradwire::net
