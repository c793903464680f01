// Looks again for a moment before a thread goes to sleep: to wake a sleeping thread, on a core that sleeps too, takes
// longer than most replies. Only where that pays: not where what is waited for takes its time, and not on a host with
// more to run than it has cores, where a thread that spun has used up its turn when the reply comes.
#pragma once

#include <chrono>

namespace gradwire::net {

// Of one thread at a time.
class Spin {
 public:
  using Clock = std::chrono::steady_clock;
  // Whether the host has a core to spare, as far as this process knows.
  static bool host_has_a_core(Clock::time_point now);

  explicit Spin(bool (*has_a_core)(Clock::time_point) = host_has_a_core) : has_a_core_(has_a_core) {}

  // Calls `look` until it returns true, for a moment at most and not after the deadline. Whether it did; false also
  // where it does not look at all.
  template <typename Look>
  bool until(Clock::time_point deadline, Look&& look) {
    if (!begin(deadline)) return false;
    bool waited = false;
    do {
      if (look()) {
        // What was there at once says nothing of whether spinning pays.
        if (waited) in_vain_ = 0;
        return true;
      }
      waited = true;
    } while (go_on());
    return false;
  }

 private:
  bool begin(Clock::time_point deadline);
  bool go_on();

  bool (*const has_a_core_)(Clock::time_point);
  Clock::time_point not_before_;
  Clock::time_point end_;
  Clock::time_point last_look_;
  int in_vain_ = 0;  // how often in a row nothing came
};

}  // namespace gradwire::net
