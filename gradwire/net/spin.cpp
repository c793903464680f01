#include "gradwire/net/spin.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "gradwire/net/descriptor.h"

namespace gradwire::net {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto moment = 150us;
// After a spin in vain; doubled each time in a row, so that spinning costs a hundredth of a core where it does not pay.
constexpr auto pause_in_vain = 100us;
constexpr int most_in_vain = 7;
// Between two looks: longer means that the core went to someone who keeps it. Others that spin give it back at once.
constexpr auto core_lost = 300us;

// How many threads of the host run or would like to, now: the 2 of "0.10 0.20 0.30 2/345 6789". 0 if no one tells.
int runnable() {
  static const Descriptor file(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
  char text[128];
  const ssize_t size = file ? ::pread(file.get(), text, sizeof text - 1, 0) : 0;
  if (size <= 0) return 0;
  text[size] = 0;
  const char* place = text;
  for (int spaces = 0; spaces < 3 && place != nullptr; ++spaces) {
    place = std::strchr(place, ' ');
    if (place != nullptr) ++place;
  }
  return place != nullptr ? std::atoi(place) : 0;
}

int cores() {
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) == 0) return CPU_COUNT(&mine);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

// Whether the host has a core to spare, as far as this process knows: until one is lost while there is more to run than
// there are cores, and again when there is not. Any thread.
class Host {
 public:
  bool has_a_core(Clock::time_point now) {
    if (!busy_.load(std::memory_order_relaxed)) return true;
    const Clock::duration time = now.time_since_epoch();
    if (time < next_look_.load(std::memory_order_relaxed)) return false;
    next_look_.store(time + 1ms, std::memory_order_relaxed);
    look();
    return !busy_.load(std::memory_order_relaxed);
  }
  void look() { busy_.store(runnable() > cores_, std::memory_order_relaxed); }

 private:
  const int cores_ = cores();
  std::atomic<bool> busy_ = false;
  std::atomic<Clock::duration> next_look_ = Clock::duration(0);
};

Host& host() {
  static Host host;
  return host;
}

}  // namespace

bool Spin::begin() {
  last_look_ = Clock::now();
  end_ = last_look_ + moment;
  return last_look_ >= not_before_ && host().has_a_core(last_look_);
}

bool Spin::go_on() {
  // To another thread of this process, most likely: the one that brings what is waited for.
  sched_yield();
  const Clock::time_point now = Clock::now();
  const bool lost = now - last_look_ > core_lost;
  if (lost) host().look();
  last_look_ = now;
  if (!lost && now < end_) return true;
  not_before_ = now + pause_in_vain * (1 << in_vain_);
  in_vain_ = std::min(in_vain_ + 1, most_in_vain);
  return false;
}

}  // namespace gradwire::net
