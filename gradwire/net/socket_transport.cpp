#include "gradwire/net/socket_transport.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <c10/util/Logging.h>
#include <fmt/format.h>

#include "gradwire/base/error.h"
#include "gradwire/base/mutex.h"
#include "gradwire/net/fork.h"
#include "gradwire/net/socket_link.h"

namespace gradwire::net {
namespace {

using asio::ip::tcp;
constexpr size_t longest_path = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::string_view folder_prefix = "gradwire-";

// A fresh folder with mode 0700, in the first place where a socket's path is short enough.
std::string make_folder() {
  for (const char* variable : {"XDG_RUNTIME_DIR", "TMPDIR", static_cast<const char*>(nullptr)}) {
    const char* value = variable != nullptr ? std::getenv(variable) : "/tmp";
    if (value == nullptr) continue;
    std::string path = fmt::format("{}/{}XXXXXX", value, folder_prefix);
    if (path.size() + 2 <= longest_path && mkdtemp(path.data()) != nullptr) return path;
  }
  throw InvalidArgumentError("no folder for the worker's socket could be made in XDG_RUNTIME_DIR, TMPDIR or /tmp: " +
                             std::string(std::strerror(errno)));
}

// A program that this process starts must not hold its sockets: the others would take it for a living worker.
void close_on_exec(int socket) { fcntl(socket, F_SETFD, FD_CLOEXEC); }

// The kernel's word for who is at the other end.
bool same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// A process that was killed leaves its socket behind; whoever finds that out tidies up.
void remove_leftover(const std::string& socket_path) {
  const std::filesystem::path path(socket_path);
  const std::string folder = path.parent_path().filename();
  struct stat status{};
  if (!folder.starts_with(folder_prefix) || lstat(socket_path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode))
    return;
  ::unlink(socket_path.c_str());
  ::rmdir(path.parent_path().c_str());
}

bool is_loopback(const std::string& host) {
  asio::error_code error;
  const auto address = asio::ip::make_address(host, error);
  return !error && address.is_loopback();
}

class SocketTransport : public Transport, public std::enable_shared_from_this<SocketTransport> {
 public:
  SocketTransport(std::shared_ptr<Runtime> runtime, SocketOptions options)
      : runtime_(std::move(runtime)),
        options_(std::move(options)),
        unix_acceptor_(runtime_->context()),
        tcp_acceptor_(runtime_->context()) {}

  ~SocketTransport() override { close(); }

  void listen(Record& mine, std::function<void(std::shared_ptr<Link>)> accepted) override {
    accepted_ = std::move(accepted);
    mine.host = host_of_process();
    mine.user = geteuid();
    if (options_.unix_domain) {
      folder_ = make_folder();
      mine.unix_path = folder_ + "/s";
      const asio::local::stream_protocol::endpoint endpoint(mine.unix_path);
      unix_acceptor_.open(endpoint.protocol());
      close_on_exec(unix_acceptor_.native_handle());
      unix_acceptor_.bind(endpoint);
      unix_acceptor_.listen(4096);
      close_when_forked(unix_acceptor_.native_handle());
      accept_unix();
    }
    if (!options_.tcp_host.empty()) {
      const tcp::endpoint endpoint(asio::ip::make_address(options_.tcp_host), 0);
      tcp_acceptor_.open(endpoint.protocol());
      close_on_exec(tcp_acceptor_.native_handle());
      tcp_acceptor_.bind(endpoint);
      tcp_acceptor_.listen(4096);
      close_when_forked(tcp_acceptor_.native_handle());
      const tcp::endpoint bound = tcp_acceptor_.local_endpoint();
      mine.tcp_address = fmt::format("{}:{}", bound.address().to_string(), bound.port());
      accept_tcp();
    }
  }

  void dial(const Record& peer, std::function<void(DialResult)> done) override {
    const bool near =
        options_.unix_domain && !peer.unix_path.empty() && peer.host == host_of_process() && peer.user == geteuid();
    if (near)
      runtime_->post([done = std::move(done), result = dial_unix(peer.unix_path)] { done(result); });
    else if (!peer.tcp_address.empty())
      dial_tcp(peer.tcp_address, std::move(done));
    else
      runtime_->post([done = std::move(done)] {
        done({.why = "it listens on no address that can be reached from here: it is on another host or of another "
                     "user, and "
                     "gave no TCP address"});
      });
  }

  void close() override {
    MutexLock lock(mutex_);
    if (std::exchange(closed_, true)) return;
    asio::error_code ignored;
    if (unix_acceptor_.is_open()) forget_when_forked(unix_acceptor_.native_handle());
    if (tcp_acceptor_.is_open()) forget_when_forked(tcp_acceptor_.native_handle());
    unix_acceptor_.close(ignored);
    tcp_acceptor_.close(ignored);
    if (!folder_.empty()) {
      ::unlink((folder_ + "/s").c_str());
      ::rmdir(folder_.c_str());
    }
  }

 private:
  void accept_unix() {
    MutexLock lock(mutex_);
    if (closed_) return;
    unix_acceptor_.async_accept(
        [weak = weak_from_this()](const asio::error_code& error, asio::local::stream_protocol::socket socket) {
          std::shared_ptr<SocketTransport> self = weak.lock();
          if (!self || error == asio::error::operation_aborted) return;
          if (!error) {
            Descriptor descriptor(socket.release());
            if (same_user(descriptor.get()))
              self->accepted_(make_socket_link(self->runtime_, std::move(descriptor), SocketKind::unix_domain));
            else
              LOG(WARNING) << "gradwire: a process of another user tried to connect, and was turned away";
          }
          self->accept_again(error, &SocketTransport::accept_unix);
        });
  }

  void accept_tcp() {
    MutexLock lock(mutex_);
    if (closed_) return;
    tcp_acceptor_.async_accept([weak = weak_from_this()](const asio::error_code& error, tcp::socket socket) {
      std::shared_ptr<SocketTransport> self = weak.lock();
      if (!self || error == asio::error::operation_aborted) return;
      if (!error) self->accepted_(make_socket_link(self->runtime_, Descriptor(socket.release()), SocketKind::tcp));
      self->accept_again(error, &SocketTransport::accept_tcp);
    });
  }

  void accept_again(const asio::error_code& error, void (SocketTransport::*accept)()) {
    if (!error) return (this->*accept)();
    // Out of descriptors, most likely: a pause, lest the loop spin.
    LOG(WARNING) << "gradwire: cannot accept a connection: " << error.message();
    runtime_->after(std::chrono::milliseconds(100), [weak = weak_from_this(), accept] {
      if (std::shared_ptr<SocketTransport> self = weak.lock()) ((*self).*accept)();
    });
  }

  DialResult dial_unix(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() > longest_path) return {.why = "the path of its socket is too long: " + path};
    std::memcpy(address.sun_path, path.c_str(), path.size());
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return {.why = std::strerror(errno)};
    if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      const int error = errno;
      const std::string why = fmt::format("{}: {}", path, std::strerror(error));
      // EAGAIN means that its queue is full: it lives.
      if (error != ECONNREFUSED && error != ENOENT) return {.why = why};
      remove_leftover(path);
      return {.outcome = DialOutcome::refused, .why = fmt::format("no one listens at its socket any more ({})", why)};
    }
    if (!same_user(socket.get())) return {.why = "the process at " + path + " belongs to another user"};
    return {.outcome = DialOutcome::connected,
            .link = make_socket_link(runtime_, std::move(socket), SocketKind::unix_domain)};
  }

  void dial_tcp(const std::string& address, std::function<void(DialResult)> done) {
    const size_t colon = address.rfind(':');
    const std::string host = address.substr(0, colon);
    if (!options_.insecure && !is_loopback(host)) {
      runtime_->post([done = std::move(done), address] {
        done({.why = "plain TCP to " + address + " needs the option `insecure`"});
      });
      return;
    }
    auto socket = std::make_shared<tcp::socket>(runtime_->context());
    asio::error_code bad;
    const auto ip = asio::ip::make_address(host, bad);
    if (bad) {
      runtime_->post([done = std::move(done), address] { done({.why = "not an address: " + address}); });
      return;
    }
    const tcp::endpoint endpoint(ip, static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
    socket->open(endpoint.protocol(), bad);
    if (!bad) close_on_exec(socket->native_handle());
    // A dial under way is not to keep the runtime: it would run on, into the end of the process, for no one.
    socket->async_connect(endpoint, [socket, address, weak = std::weak_ptr(runtime_),
                                     done = std::move(done)](const asio::error_code& error) {
      const std::shared_ptr<Runtime> runtime = weak.lock();
      if (!runtime) return;
      const std::string why = error ? fmt::format("{}: {}", address, error.message()) : "";
      if (error == asio::error::connection_refused)
        done({.outcome = DialOutcome::unreachable, .why = why});
      else if (error)
        done({.why = why});
      else
        done({.outcome = DialOutcome::connected,
              .link = make_socket_link(runtime, Descriptor(socket->release()), SocketKind::tcp)});
    });
  }

  const std::shared_ptr<Runtime> runtime_;
  const SocketOptions options_;
  std::function<void(std::shared_ptr<Link>)> accepted_;
  std::string folder_;
  Mutex mutex_;
  asio::local::stream_protocol::acceptor unix_acceptor_;
  tcp::acceptor tcp_acceptor_;
  bool closed_ GRADWIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::shared_ptr<Transport> make_socket_transport(std::shared_ptr<Runtime> runtime, SocketOptions options) {
  if (!options.tcp_host.empty()) {
    // What is given here is what the others dial.
    asio::error_code error;
    const auto address = asio::ip::make_address(options.tcp_host, error);
    if (error || address.is_unspecified())
      throw InvalidArgumentError(fmt::format(
          "tcp_host is \"{}\": it has to be the numeric address of this host at which the others reach it, such as "
          "192.0.2.7",
          options.tcp_host));
  }
  if (!options.tcp_host.empty() && !is_loopback(options.tcp_host)) {
    if (!options.insecure)
      throw InvalidArgumentError(fmt::format(
          "plain TCP on {} would let anyone on the network in: listen on 127.0.0.1, or set the option `insecure`",
          options.tcp_host));
    LOG(WARNING) << "gradwire: insecure: plain TCP on " << options.tcp_host
                 << "; anyone who can reach it may call this worker";
  }
  return std::make_shared<SocketTransport>(std::move(runtime), std::move(options));
}

}  // namespace gradwire::net
