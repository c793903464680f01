// Tells links when their socket can be read or written, on the loop's thread.
//
// Its own epoll set, itself watched by the event loop, because a link must be able to say "not now": a user's
// thread that waits for a reply reads the link itself, and then the loop's thread must not be woken by what
// arrives (a hand-over costs more than everything else in a call). Asio arms a descriptor for as long as it lives.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "gradwire/base/mutex.h"
#include "gradwire/net/descriptor.h"

namespace gradwire::net {

struct Interest {
  bool readable = false;
  bool writable = false;
};

class Watcher {
 public:
  virtual ~Watcher() = default;
  // What goes wrong in it ends what it watches, and nothing else.
  virtual void ready(Interest ready) noexcept = 0;
};

// Any thread may call these; `dispatch` is called by the loop's thread alone.
class Poller {
 public:
  using Token = uint64_t;

  Poller();
  // The watcher is held weakly: one that is gone is not called. Throws std::system_error if the system watches no more.
  Token add(int descriptor, std::weak_ptr<Watcher> watcher, Interest interest);
  void change(Token token, int descriptor, Interest interest);
  void remove(Token token, int descriptor);

  // Readable when `dispatch` has something to do.
  int descriptor() const { return epoll_.get(); }
  // Whether there was something.
  bool dispatch();

 private:
  const Descriptor epoll_;
  Mutex mutex_;
  Token next_ GRADWIRE_GUARDED_BY(mutex_) = 1;
  std::unordered_map<Token, std::weak_ptr<Watcher>> watchers_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire::net
