#include "gradwire/net/signal.h"

namespace gradwire::net {

// A waker on the list, until the wait is over, however it ends.
class Signal::Listed {
 public:
  Listed(Signal& signal, WakerPool& pool) : signal_(signal), pool_(pool), waker_(pool.take()) {
    MutexLock lock(signal_.mutex_);
    signal_.waiting_.push_back(waker_.get());
  }
  ~Listed() {
    {
      MutexLock lock(signal_.mutex_);
      std::erase(signal_.waiting_, waker_.get());
    }
    pool_.give_back(std::move(waker_));
  }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;
  Waker& waker() { return *waker_; }

 private:
  Signal& signal_;
  WakerPool& pool_;
  std::unique_ptr<Waker> waker_;
};

bool Signal::wait(Runtime& runtime, Session* session, const std::function<bool()>& done, Time deadline) {
  if (done()) return true;
  const Threads::Blocked blocked;
  Listed listed(*this, runtime.wakers());
  if (session != nullptr) return session->wait(listed.waker(), done, deadline);
  bool is_done = false;
  while (!(is_done = done()) && std::chrono::steady_clock::now() < deadline) listed.waker().sleep(-1, deadline);
  return is_done;
}

}  // namespace gradwire::net
