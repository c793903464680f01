#include "gradwire/net/socket_link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <c10/util/Logging.h>

#include "gradwire/base/mutex.h"
#include "gradwire/net/fork.h"

namespace gradwire::net {
namespace {

constexpr size_t most_descriptors_a_call = 64;

class SocketLink : public Link, public Watcher, public std::enable_shared_from_this<SocketLink> {
 public:
  SocketLink(std::shared_ptr<Runtime> runtime, Descriptor socket, SocketKind kind)
      : runtime_(std::move(runtime)), socket_(std::move(socket)), kind_(kind) {
    close_when_forked(socket_.get());
    fcntl(socket_.get(), F_SETFL, fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
    if (kind_ == SocketKind::tcp) {
      const int on = 1;
      setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    } else {
      // Room for two chunks: the writer need not sleep between them, and little is queued ahead of a small message.
      const int size = 512 * 1024;
      setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    }
  }

  ~SocketLink() override {
    if (token_ != 0) runtime_->poller().remove(token_, socket_.get());
    forget_when_forked(socket_.get());
  }

  Transfer write(std::span<const iovec> buffers, std::span<const int> descriptors) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(buffers.data());
    message.msg_iovlen = buffers.size();
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * most_descriptors_a_call)> control;
    if (!descriptors.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    ssize_t count;
    do count = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (count < 0 && errno == EINTR);
    if (count >= 0) return {.bytes = static_cast<size_t>(count)};
    if (would_block()) return {};
    // Too many descriptors of this user are under way: the system takes no more until some have been read.
    const bool descriptors_lost = errno == ETOOMANYREFS;
    // The connection may be well but for this: the reader, here and there, is to find out that it is over.
    shutdown(socket_.get(), SHUT_RDWR);
    return {.closed = true, .descriptors_lost = descriptors_lost};
  }

  Transfer read(std::span<const iovec> buffers, std::vector<Descriptor>& descriptors) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(buffers.data());
    message.msg_iovlen = buffers.size();
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * most_descriptors_a_call)> control;
    if (kind_ == SocketKind::unix_domain) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
    }
    ssize_t count;
    do count = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (count < 0 && errno == EINTR);
    if (count < 0) return {.closed = !would_block()};
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const size_t number = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < number; ++i) {
        int value;
        std::memcpy(&value, CMSG_DATA(header) + i * sizeof(int), sizeof value);
        descriptors.emplace_back(value);
      }
    }
    return {.bytes = static_cast<size_t>(count),
            .closed = count == 0,
            .descriptors_lost = (message.msg_flags & MSG_CTRUNC) != 0};
  }

  void close() override {
    // The descriptor itself stays until the last user of this object is gone: its number must not be reused
    // while another thread polls it.
    shutdown(socket_.get(), SHUT_RDWR);
    MutexLock lock(mutex_);
    closed_ = true;
    interest_ = {};
    update();
  }

  void watch(std::function<void()> readable, std::function<void()> writable) override {
    readable_ = std::move(readable);
    writable_ = std::move(writable);
  }

  void want_readable(bool wanted) override {
    MutexLock lock(mutex_);
    if (closed_ || interest_.readable == wanted) return;
    interest_.readable = wanted;
    update();
  }

  void want_writable() override {
    MutexLock lock(mutex_);
    if (closed_ || interest_.writable) return;
    interest_.writable = true;
    update();
  }

  void ready(Interest ready) noexcept override {
    try {
      tell(ready);
    } catch (const std::exception& error) {
      LOG(ERROR) << "gradwire: a " << kind()
                 << " connection is closed, because what it brought could not be handled: " << error.what();
      close();
    } catch (...) {
      LOG(ERROR) << "gradwire: a " << kind() << " connection is closed, because handling what it brought threw "
                 << "something that is not a std::exception";
      close();
    }
  }

  void tell(Interest ready) {
    bool readable, writable;
    {
      MutexLock lock(mutex_);
      // Nobody waits, and yet there is an event: an error or hang-up, which epoll always tells. Whoever wants to read
      // or write next finds out; until then the loop must not spin on it. (While one of both is waited for, an event of
      // the other is one that was on its way when it was asked for no more.)
      if (!interest_.readable && !interest_.writable) unwatch();
      readable = ready.readable && interest_.readable;
      writable = ready.writable && interest_.writable;
      if (writable) {
        interest_.writable = false;
        update();
      }
    }
    if (writable) writable_();
    if (readable) readable_();
  }

  int descriptor() const override { return socket_.get(); }
  bool passes_descriptors() const override { return kind_ == SocketKind::unix_domain; }
  std::string kind() const override { return kind_ == SocketKind::tcp ? "tcp" : "unix"; }

 private:
  static bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

  void update() GRADWIRE_REQUIRES(mutex_) {
    if (closed_)
      unwatch();
    else if (token_ == 0)
      begin_to_watch();
    else
      runtime_->poller().change(token_, socket_.get(), interest_);
  }

  // A connection that cannot be watched is over. Its reader finds the end, as if the other side had closed it.
  void begin_to_watch() GRADWIRE_REQUIRES(mutex_) {
    try {
      token_ = runtime_->poller().add(socket_.get(), weak_from_this(), interest_);
    } catch (const std::exception& error) {
      LOG(ERROR) << "gradwire: a " << kind() << " connection is closed, because it cannot be watched: " << error.what();
      shutdown(socket_.get(), SHUT_RDWR);
      runtime_->post([weak = weak_from_this()] {
        if (const std::shared_ptr<SocketLink> self = weak.lock(); self && self->readable_) self->readable_();
      });
    }
  }

  void unwatch() GRADWIRE_REQUIRES(mutex_) {
    if (token_ == 0) return;
    runtime_->poller().remove(token_, socket_.get());
    token_ = 0;
  }

  const std::shared_ptr<Runtime> runtime_;
  const Descriptor socket_;
  const SocketKind kind_;
  std::function<void()> readable_;
  std::function<void()> writable_;

  Mutex mutex_;
  Interest interest_ GRADWIRE_GUARDED_BY(mutex_);
  bool closed_ GRADWIRE_GUARDED_BY(mutex_) = false;
  Poller::Token token_ GRADWIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::shared_ptr<Link> make_socket_link(std::shared_ptr<Runtime> runtime, Descriptor socket, SocketKind kind) {
  return std::make_shared<SocketLink>(std::move(runtime), std::move(socket), kind);
}

}  // namespace gradwire::net
