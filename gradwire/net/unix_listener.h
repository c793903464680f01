// The Unix socket of a worker, in a folder of its own that only this user can enter.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gradwire/base/mutex.h"
#include "gradwire/net/acceptor.h"
#include "gradwire/net/held_folder.h"

namespace gradwire::net {

// Any thread. Processes of other users are turned away. If someone removes the socket or its folder (a cleaner of /tmp,
// for instance), it is made anew under the same path within `check_every`.
class UnixListener : public std::enable_shared_from_this<UnixListener> {
 public:
  // Throws InvalidArgumentError where no folder can be made.
  static std::shared_ptr<UnixListener> make(std::shared_ptr<Runtime> runtime, Duration check_every,
                                            Acceptor::Accepted accepted);
  ~UnixListener() { close(); }
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  const std::string& path() const { return path_; }
  // Stops listening, and removes the socket and its folder.
  void close();

 private:
  UnixListener(std::shared_ptr<Runtime> runtime, Duration check_every, Acceptor::Accepted accepted);
  void listen() GRADWIRE_REQUIRES(mutex_);
  void check_later();
  void check();
  void make_anew() GRADWIRE_REQUIRES(mutex_);

  const std::shared_ptr<Runtime> runtime_;
  const Duration check_every_;
  const Acceptor::Accepted accepted_;
  std::string path_;  // constant once made

  Mutex mutex_;
  HeldFolder folder_ GRADWIRE_GUARDED_BY(mutex_);
  std::shared_ptr<Acceptor> acceptor_ GRADWIRE_GUARDED_BY(mutex_);
  Time next_touch_ GRADWIRE_GUARDED_BY(mutex_);
  bool failure_logged_ GRADWIRE_GUARDED_BY(mutex_) = false;
  bool closed_ GRADWIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace gradwire::net
