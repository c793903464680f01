// Lets one thread sleep until another wakes it, while it also watches a socket: what a user's thread uses that
// waits for a reply and reads the link meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "gradwire/base/mutex.h"
#include "gradwire/net/descriptor.h"
#include "gradwire/net/spin.h"

namespace gradwire::net {

class Waker {
 public:
  Waker();
  // Any thread. Cheap when the owner is not asleep.
  void wake();

  // The owner alone:
  // Sleeps until woken or the deadline is over, or, if `socket` is not -1, until it can be read (or has ended): then it
  // returns true. Before it sleeps it may call `read` for a moment, again and again, which takes what is there and says
  // whether there was anything: to ask first would be one system call more for each message.
  bool sleep(int socket, std::chrono::steady_clock::time_point deadline, const std::function<bool()>& read = nullptr);

 private:
  enum State : int { awake, asleep, woken };
  const Descriptor event_;
  std::atomic<int> state_{awake};
  Spin spin_;  // of whoever has the waker: what it learnt in one wait it takes for the next
};

// Wakers to be used again: each costs two system calls to make. Any thread.
class WakerPool {
 public:
  std::unique_ptr<Waker> take() GRADWIRE_EXCLUDES(mutex_);
  void give_back(std::unique_ptr<Waker> waker) GRADWIRE_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<Waker>> idle_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire::net
