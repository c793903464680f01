#include "gradwire/net/poller.h"

#include <sys/epoll.h>

#include <array>
#include <system_error>

namespace gradwire::net {
namespace {

epoll_event event_of(Poller::Token token, Interest interest) {
  epoll_event event{};
  event.events = (interest.readable ? EPOLLIN : 0U) | (interest.writable ? EPOLLOUT : 0U);
  event.data.u64 = token;
  return event;
}

}  // namespace

Poller::Poller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
}

Poller::Token Poller::add(int descriptor, std::weak_ptr<Watcher> watcher, Interest interest) {
  Token token;
  {
    MutexLock lock(mutex_);
    token = next_++;
    watchers_.emplace(token, std::move(watcher));
  }
  epoll_event event = event_of(token, interest);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0) return token;
  const int error = errno;
  {
    MutexLock lock(mutex_);
    watchers_.erase(token);
  }
  throw std::system_error(error, std::generic_category(), "epoll_ctl");
}

void Poller::change(Token token, int descriptor, Interest interest) {
  epoll_event event = event_of(token, interest);
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event);
}

void Poller::remove(Token token, int descriptor) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  MutexLock lock(mutex_);
  watchers_.erase(token);
}

bool Poller::dispatch() {
  std::array<epoll_event, 32> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t token = events[i].data.u64;  // a copy: the kernel's struct is packed
    std::shared_ptr<Watcher> watcher;
    {
      MutexLock lock(mutex_);
      if (auto found = watchers_.find(token); found != watchers_.end()) watcher = found->second.lock();
    }
    if (!watcher) continue;
    // An error or hang-up is told to both sides: reading or writing then finds out which it is.
    const uint32_t happened = events[i].events;
    const bool ended = (happened & (EPOLLERR | EPOLLHUP)) != 0;
    watcher->ready({.readable = ended || (happened & EPOLLIN) != 0, .writable = ended || (happened & EPOLLOUT) != 0});
  }
  return count > 0;
}

}  // namespace gradwire::net
