// Looks again for a moment before a thread goes to sleep: to wake a sleeping thread, on a core that sleeps too, takes
// longer than most replies. Only where that pays: not where what is waited for takes its time, and not on a host with
// more to run than it has cores, where a thread that spun is out of its turn when it matters.
#pragma once

#include <chrono>

namespace gradwire::net {

// Of one thread at a time.
class Spin {
 public:
  // Calls `look` until it returns true, for a moment at most. Returns what it said last.
  template <typename Look>
  bool until(Look&& look) {
    if (!begin()) return false;
    do {
      if (look()) {
        in_vain_ = 0;
        return true;
      }
    } while (go_on());
    return false;
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool begin();
  bool go_on();

  Clock::time_point not_before_;
  Clock::time_point end_;
  Clock::time_point last_look_;
  int in_vain_ = 0;  // how often in a row nothing came
};

}  // namespace gradwire::net
