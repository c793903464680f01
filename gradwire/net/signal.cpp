#include "gradwire/net/signal.h"

namespace gradwire::net {

bool Signal::wait(Runtime& runtime, Session* session, const std::function<bool()>& done, Time deadline) {
  if (done()) return true;
  const Threads::Blocked blocked;
  std::unique_ptr<Waker> waker = runtime.wakers().take();
  {
    MutexLock lock(mutex_);
    waiting_.push_back(waker.get());
  }
  bool is_done = false;
  if (session != nullptr) {
    is_done = session->wait(*waker, done, deadline);
  } else {
    while (!(is_done = done()) && std::chrono::steady_clock::now() < deadline) waker->sleep(-1, deadline);
  }
  {
    MutexLock lock(mutex_);
    std::erase(waiting_, waker.get());
  }
  runtime.wakers().give_back(std::move(waker));
  return is_done;
}

}  // namespace gradwire::net
