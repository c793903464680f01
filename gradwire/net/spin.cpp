#include "gradwire/net/spin.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace gradwire::net {
namespace {

using namespace std::chrono_literals;
using Clock = Spin::Clock;

constexpr auto moment = 150us;
// After a spin in vain; doubled each time in a row, so that spinning costs a hundredth of a core where it does not pay.
constexpr auto pause_in_vain = 100us;
constexpr int most_in_vain = 7;
// The longest time between two looks: after more, the core had gone to someone who keeps it. Others that spin give it
// back at once.
constexpr auto core_lost = 300us;
// Whatever took the core, another process or a limit on this one's time: this many times as long no one spins.
constexpr int caution = 8;

// How many threads of the host run or would like to, now: the 2 of "0.10 0.20 0.30 2/345 6789". 0 if no one tells.
int runnable() {
  static const int file = ::open("/proc/loadavg", O_RDONLY | O_CLOEXEC);  // until the process ends
  char text[128];
  const ssize_t size = file >= 0 ? ::pread(file, text, sizeof text - 1, 0) : 0;
  if (size <= 0) return 0;
  text[size] = 0;
  const char* place = text;
  for (int spaces = 0; spaces < 3 && place != nullptr; ++spaces) {
    place = std::strchr(place, ' ');
    if (place != nullptr) ++place;
  }
  return place != nullptr ? std::atoi(place) : 0;
}

// Has a core until a thread of this process loses one while it spins; again when a pause is over and there is no more
// to run than there are cores. Any thread.
class Host {
 public:
  bool has_a_core(Clock::time_point now) {
    if (!busy_.load(std::memory_order_relaxed)) return true;
    const Clock::duration time = now.time_since_epoch();
    if (time < next_look_.load(std::memory_order_relaxed)) return false;
    next_look_.store(time + 1ms, std::memory_order_relaxed);
    if (runnable() > cores_) return false;
    busy_.store(false, std::memory_order_relaxed);
    return true;
  }
  void lost_a_core(Clock::time_point now, Clock::duration away) {
    next_look_.store(now.time_since_epoch() + caution * away, std::memory_order_relaxed);
    busy_.store(true, std::memory_order_relaxed);
  }

 private:
  const int cores_ = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  std::atomic<bool> busy_ = false;
  std::atomic<Clock::duration> next_look_ = Clock::duration(0);
};

Host& host() {
  static Host host;
  return host;
}

}  // namespace

bool Spin::host_has_a_core(Clock::time_point now) { return host().has_a_core(now); }

bool Spin::begin(Clock::time_point deadline) {
  last_look_ = Clock::now();
  end_ = std::min(last_look_ + moment, deadline);
  return last_look_ >= not_before_ && has_a_core_(last_look_);
}

bool Spin::go_on() {
  // Whoever shares this core goes first: it may be the one that brings what is waited for.
  sched_yield();
  const Clock::time_point now = Clock::now();
  const Clock::duration away = now - last_look_;
  last_look_ = now;
  if (away > core_lost)
    host().lost_a_core(now, away);
  else if (now < end_)
    return true;
  not_before_ = now + pause_in_vain * (1 << in_vain_);
  in_vain_ = std::min(in_vain_ + 1, most_in_vain);
  return false;
}

}  // namespace gradwire::net
