// Lets one thread sleep until another wakes it, and watch a socket meanwhile if it wants to: what a user's thread uses
// that waits for a reply and reads the link.
//
// Only a waker that watches a socket has a descriptor (an eventfd). The others sleep on a futex: five hundred threads
// that wait would use up half of what a process may open.
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

class WakerPool;

class Waker {
 public:
  // Of a pool: its descriptors come from there.
  explicit Waker(WakerPool* pool = nullptr) : pool_(pool) {}
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;
  // Any thread. Cheap when the owner is not asleep.
  void wake();

  // The owner alone:
  // Whether it can watch a socket: not if the system gives it no descriptor. To be asked first.
  bool can_watch();
  // Sleeps until woken or the deadline is over, or, if `socket` is not -1, until it can be read (or has ended): then it
  // returns true. Before it sleeps it may call `read` for a moment, again and again, which takes what is there and says
  // whether there was anything: to ask first would be one system call more for each message.
  bool sleep(int socket, std::chrono::steady_clock::time_point deadline, const std::function<bool()>& read = nullptr);

 private:
  friend class WakerPool;
  enum State : int { awake, asleep, watching, woken };
  void sleep_alone(std::chrono::steady_clock::time_point deadline);
  bool sleep_watching(int socket, std::chrono::steady_clock::time_point deadline);
  void give_event_back();

  WakerPool* const pool_;
  // Whoever wakes it may still write to its descriptor if it has watched a socket in this wait: then it keeps that
  // until it is given back to the pool. One from an earlier wait it gives away when it sleeps without a socket.
  Descriptor event_;
  bool has_watched_ = false;
  std::atomic<int> state_{awake};
  Spin spin_;  // of whoever has the waker: what it learnt in one wait it takes for the next
};

// Wakers and eventfds to be used again. It outlives its wakers. Any thread.
class WakerPool {
 public:
  std::unique_ptr<Waker> take() GRADWIRE_EXCLUDES(mutex_);
  void give_back(std::unique_ptr<Waker> waker) noexcept GRADWIRE_EXCLUDES(mutex_);

 private:
  friend class Waker;
  // Empty if there is none.
  Descriptor take_event() GRADWIRE_EXCLUDES(mutex_);
  void give_event_back(Descriptor event) noexcept GRADWIRE_EXCLUDES(mutex_);

  Mutex mutex_;
  std::vector<Descriptor> events_ GRADWIRE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Waker>> idle_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire::net
