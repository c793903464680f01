#include "gradwire/net/waker.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace gradwire::net {
namespace {

using Clock = std::chrono::steady_clock;

// How many a pool keeps. Each idle waker may have an eventfd too.
constexpr size_t most_idle_wakers = 32;
constexpr size_t most_idle_events = 16;

timespec to_timespec(Clock::duration time) {
  const auto left = std::max(time, Clock::duration(0));
  return {.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count(),
          .tv_nsec = (std::chrono::nanoseconds(left) % std::chrono::seconds(1)).count()};
}

int* word_of(std::atomic<int>& state) {
  static_assert(sizeof(std::atomic<int>) == sizeof(int) && std::atomic<int>::is_always_lock_free);
  return reinterpret_cast<int*>(&state);
}

}  // namespace

Waker::~Waker() { give_event_back(); }

void Waker::wake() {
  // Only a sleeper needs the system call; one that is about to sleep sees `woken` first.
  switch (state_.exchange(woken)) {
    case watching:
      eventfd_write(event_.get(), 1);
      return;
    case asleep:
      ::syscall(SYS_futex, word_of(state_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
      return;
    default:
      return;
  }
}

bool Waker::can_watch() {
  if (!event_ && pool_ != nullptr) event_ = pool_->take_event();
  if (!event_) event_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return static_cast<bool>(event_);
}

void Waker::give_event_back() {
  if (event_ && pool_ != nullptr) pool_->give_event_back(std::exchange(event_, Descriptor()));
}

bool Waker::sleep(int socket, Clock::time_point deadline, const std::function<bool()>& read) {
  bool taken = false;
  // Meanwhile it is awake: whoever wakes it has nothing to write.
  spin_.until(deadline, [&] {
    taken = read && read();
    return taken || state_.load(std::memory_order_relaxed) == woken;
  });
  if (taken) return false;
  const bool watches = socket >= 0 && can_watch();
  if (watches)
    has_watched_ = true;
  else if (!has_watched_)
    give_event_back();
  int expected = awake;
  if (!state_.compare_exchange_strong(expected, watches ? watching : asleep)) {
    state_.exchange(awake);
    return false;
  }
  if (watches) return sleep_watching(socket, deadline);
  sleep_alone(deadline);
  return false;
}

void Waker::sleep_alone(Clock::time_point deadline) {
  // The time on the monotonic clock at which to wake: the clock of std::chrono::steady_clock.
  const timespec until = to_timespec(deadline.time_since_epoch());
  const timespec* limit = deadline == Clock::time_point::max() ? nullptr : &until;
  while (state_.load() == asleep && (::syscall(SYS_futex, word_of(state_), FUTEX_WAIT_BITSET_PRIVATE, asleep, limit,
                                               nullptr, FUTEX_BITSET_MATCH_ANY) == 0 ||
                                     errno == EINTR)) {
  }
  state_.exchange(awake);
}

bool Waker::sleep_watching(int socket, Clock::time_point deadline) {
  pollfd watched[2] = {{event_.get(), POLLIN, 0}, {socket, POLLIN, 0}};
  int happened;
  do {
    timespec left{};
    timespec* limit = nullptr;
    if (deadline != Clock::time_point::max()) {
      left = to_timespec(deadline - Clock::now());
      limit = &left;
    }
    happened = ppoll(watched, 2, limit, nullptr);
  } while (happened < 0 && errno == EINTR);
  if (state_.exchange(awake) == woken || watched[0].revents != 0) {
    eventfd_t ignored;
    // The waker may be between its exchange and its write: the late write is read by the next sleep.
    eventfd_read(event_.get(), &ignored);
  }
  return happened > 0 && watched[1].revents != 0;
}

std::unique_ptr<Waker> WakerPool::take() {
  {
    MutexLock lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Waker> waker = std::move(idle_.back());
      idle_.pop_back();
      return waker;
    }
    // What is given back finds its place: nothing can fail there.
    idle_.reserve(most_idle_wakers);
  }
  return std::make_unique<Waker>(this);
}

void WakerPool::give_back(std::unique_ptr<Waker> waker) noexcept {
  waker->has_watched_ = false;
  MutexLock lock(mutex_);
  if (idle_.size() < idle_.capacity()) idle_.push_back(std::move(waker));
}

Descriptor WakerPool::take_event() {
  MutexLock lock(mutex_);
  events_.reserve(most_idle_events);
  if (events_.empty()) return {};
  Descriptor event = std::move(events_.back());
  events_.pop_back();
  return event;
}

void WakerPool::give_event_back(Descriptor event) noexcept {
  MutexLock lock(mutex_);
  if (events_.size() < events_.capacity()) events_.push_back(std::move(event));
}

}  // namespace gradwire::net
