#include "gradwire/net/waker.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>

namespace gradwire::net {

Waker::Waker() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
}

void Waker::wake() {
  // Only a sleeper needs the system call; one that is about to sleep sees `woken` first.
  if (state_.exchange(woken) == asleep) eventfd_write(event_.get(), 1);
}

bool Waker::sleep(int socket, std::chrono::steady_clock::time_point deadline, const std::function<bool()>& read) {
  bool taken = false;
  // Meanwhile it is awake: whoever wakes it has nothing to write.
  spin_.until(deadline, [&] {
    taken = read && read();
    return taken || state_.load(std::memory_order_relaxed) == woken;
  });
  if (taken) return false;
  int expected = awake;
  if (!state_.compare_exchange_strong(expected, asleep)) {
    state_.store(awake);
    return false;
  }
  pollfd watched[2] = {{event_.get(), POLLIN, 0}, {socket, POLLIN, 0}};
  const nfds_t count = socket >= 0 ? 2 : 1;
  int happened;
  do {
    timespec left{};
    timespec* limit = nullptr;
    if (deadline != std::chrono::steady_clock::time_point::max()) {
      const auto remaining = std::max(deadline - std::chrono::steady_clock::now(), std::chrono::nanoseconds(0));
      left.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(remaining).count();
      left.tv_nsec = (remaining % std::chrono::seconds(1)).count();
      limit = &left;
    }
    happened = ppoll(watched, count, limit, nullptr);
  } while (happened < 0 && errno == EINTR);
  if (state_.exchange(awake) == woken) {
    eventfd_t ignored;
    // The waker may be between its exchange and its write: the late write is read by the next sleep.
    eventfd_read(event_.get(), &ignored);
  } else if (watched[0].revents != 0) {
    eventfd_t ignored;
    eventfd_read(event_.get(), &ignored);
  }
  return happened > 0 && count == 2 && watched[1].revents != 0;
}

std::unique_ptr<Waker> WakerPool::take() {
  {
    MutexLock lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Waker> waker = std::move(idle_.back());
      idle_.pop_back();
      return waker;
    }
  }
  return std::make_unique<Waker>();
}

void WakerPool::give_back(std::unique_ptr<Waker> waker) {
  constexpr size_t most = 64;
  MutexLock lock(mutex_);
  if (idle_.size() < most) idle_.push_back(std::move(waker));
}

}  // namespace gradwire::net
