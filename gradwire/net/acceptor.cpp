#include "gradwire/net/acceptor.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include <c10/util/Logging.h>

#include "gradwire/net/fork.h"

namespace gradwire::net {
namespace {

constexpr int most_in_a_turn = 64;  // the loop has other work too
constexpr Duration between_warnings = std::chrono::minutes(1);
constexpr Duration pause_without_descriptors = std::chrono::milliseconds(100);

// Out of descriptors or memory: the connection stays in the queue, and the next attempt would fail at once.
bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

std::shared_ptr<Acceptor> Acceptor::make(std::shared_ptr<Runtime> runtime, Descriptor listening, Accepted accepted) {
  std::shared_ptr<Acceptor> acceptor(new Acceptor(std::move(runtime), std::move(listening), std::move(accepted)));
  MutexLock lock(acceptor->mutex_);
  close_when_forked(acceptor->listening_.get());
  acceptor->token_ = acceptor->runtime_->poller().add(acceptor->listening_.get(), acceptor, {.readable = true});
  return acceptor;
}

void Acceptor::close() {
  MutexLock lock(mutex_);
  if (!listening_) return;
  if (token_ != 0) runtime_->poller().remove(token_, listening_.get());
  forget_when_forked(listening_.get());
  listening_ = Descriptor();
}

// What goes wrong ends the connections of this turn; those that wait are told again.
void Acceptor::ready(Interest) noexcept {
  try {
    accept_waiting();
  } catch (const std::exception& error) {
    LOG(ERROR) << "gradwire: a connection that was being accepted is closed: " << error.what();
  }
}

void Acceptor::accept_waiting() {
  std::vector<Descriptor> sockets;
  int shortage = 0;
  {
    MutexLock lock(mutex_);
    while (listening_ && sockets.size() < most_in_a_turn) {
      Descriptor socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket) {
        sockets.push_back(std::move(socket));
        continue;
      }
      if (is_shortage(errno)) shortage = errno;
      // Other errors belong to a connection that has ended, or say that none waits. What waits is told again.
      break;
    }
  }
  if (shortage != 0) {
    if (runtime_->now() >= next_warning_) {
      next_warning_ = runtime_->now() + between_warnings;
      LOG(WARNING) << "gradwire: cannot accept connections for now: " << std::strerror(shortage)
                   << "; they wait. `ulimit -n` shows how many descriptors this process may have";
    }
    // The timer first: without it, nobody would watch again.
    runtime_->after(pause_without_descriptors, [weak = weak_from_this()] {
      if (const std::shared_ptr<Acceptor> self = weak.lock()) self->watch(true);
    });
    watch(false);
  }
  for (Descriptor& socket : sockets) accepted_(std::move(socket));
}

void Acceptor::watch(bool wanted) {
  MutexLock lock(mutex_);
  if (listening_) runtime_->poller().change(token_, listening_.get(), {.readable = wanted});
}

}  // namespace gradwire::net
