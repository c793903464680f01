// Lets threads wait for something that others bring about, and read a session's link meanwhile: what they wait for
// often comes from there.
#pragma once

#include <functional>
#include <vector>

#include "gradwire/base/mutex.h"
#include "gradwire/net/runtime.h"
#include "gradwire/net/session.h"

namespace gradwire::net {

// Any thread.
class Signal {
 public:
  // After `done` of someone who waits may have become true.
  void notify() GRADWIRE_EXCLUDES(mutex_) {
    // Under the lock: whoever waits takes its waker off the list before it gives it back.
    MutexLock lock(mutex_);
    for (Waker* waker : waiting_) waker->wake();
  }
  // Waits until `done()`, or the deadline is over: returns the last `done()`. One of Gradwire's threads is replaced
  // meanwhile. Without a session no link is read.
  bool wait(Runtime& runtime, Session* session, const std::function<bool()>& done, Time deadline = Time::max())
      GRADWIRE_EXCLUDES(mutex_);

 private:
  class Listed;

  Mutex mutex_;
  std::vector<Waker*> waiting_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire::net
