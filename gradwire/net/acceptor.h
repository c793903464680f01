// Accepts the connections of a listening socket on the loop.
#pragma once

#include <functional>
#include <memory>

#include "gradwire/base/mutex.h"
#include "gradwire/net/descriptor.h"
#include "gradwire/net/runtime.h"

namespace gradwire::net {

// Connections that wait to be accepted; the kernel lowers it to net.core.somaxconn.
inline constexpr int longest_accept_queue = 4096;

// Any thread. `accepted` is called on the loop, with a socket that a started program does not inherit (accept4 marks it
// in the same step) and that does not block.
class Acceptor : public Watcher, public std::enable_shared_from_this<Acceptor> {
 public:
  using Accepted = std::function<void(Descriptor)>;

  // Takes over a socket that listens and does not block.
  static std::shared_ptr<Acceptor> make(std::shared_ptr<Runtime> runtime, Descriptor listening, Accepted accepted);
  ~Acceptor() override { close(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Stops listening: who dials is refused from now on.
  void close();
  void ready(Interest ready) noexcept override;

 private:
  Acceptor(std::shared_ptr<Runtime> runtime, Descriptor listening, Accepted accepted)
      : runtime_(std::move(runtime)), accepted_(std::move(accepted)), listening_(std::move(listening)) {}
  void watch(bool wanted);
  void accept_waiting();

  const std::shared_ptr<Runtime> runtime_;
  const Accepted accepted_;
  Time next_warning_{};  // on the loop
  Mutex mutex_;
  Descriptor listening_ GRADWIRE_GUARDED_BY(mutex_);
  Poller::Token token_ GRADWIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace gradwire::net
