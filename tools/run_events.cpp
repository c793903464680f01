#include "tools/run_events.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <climits>

namespace gradwire::tools {

Events::Events() : poller_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!poller_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
}

Events::Watch Events::watch(int file, uint32_t events, std::function<void()> action) {
  // A number of its own for each: a file's may come again while events of the last one are still being acted on.
  const Watch watch = ++last_;
  epoll_event event{};
  event.events = events;
  event.data.u64 = watch;
  if (::epoll_ctl(poller_.get(), EPOLL_CTL_ADD, file, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  watched_[watch] = {file, std::move(action)};
  return watch;
}

void Events::unwatch(Watch& watch) {
  const auto found = watched_.find(watch);
  watch = 0;
  if (found == watched_.end()) return;
  ::epoll_ctl(poller_.get(), EPOLL_CTL_DEL, found->second.file, nullptr);
  watched_.erase(found);
}

void Events::wait(std::optional<Clock::time_point> until) {
  int timeout = -1;
  if (until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now()).count();
    timeout = static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
  }
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(poller_.get(), events.data(), static_cast<int>(events.size()), timeout);
  if (count < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "epoll_wait");
  for (int i = 0; i < count; ++i) {
    const uint64_t watch = events[static_cast<size_t>(i)].data.u64;  // a copy: the kernel's struct is packed
    const auto found = watched_.find(watch);
    if (found == watched_.end()) continue;
    const std::function<void()> action = found->second.action;  // it may unwatch itself
    action();
  }
}

}  // namespace gradwire::tools
