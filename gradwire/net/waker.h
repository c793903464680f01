// Lets one thread sleep until another wakes it, while it also watches a socket: what a user's thread uses that
// waits for a reply and reads the link meanwhile.
#pragma once

#include <atomic>
#include <chrono>

#include "gradwire/net/descriptor.h"

namespace gradwire::net {

class Waker {
 public:
  Waker();
  // Any thread. Cheap when the owner is not asleep.
  void wake();

  // The owner alone:
  // Sleeps until woken or the deadline is over, or, if `socket` is not -1, until it can be read.
  // Returns true if the socket can be read (or has ended).
  bool sleep(int socket, std::chrono::steady_clock::time_point deadline);

 private:
  enum State : int { awake, asleep, woken };
  const Descriptor event_;
  std::atomic<int> state_{awake};
};

}  // namespace gradwire::net
