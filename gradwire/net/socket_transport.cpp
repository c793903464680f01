#include "gradwire/net/socket_transport.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <c10/util/Logging.h>
#include <fmt/format.h>

#include "gradwire/base/error.h"
#include "gradwire/base/mutex.h"
#include "gradwire/net/acceptor.h"
#include "gradwire/net/descriptor_limit.h"
#include "gradwire/net/held_folder.h"
#include "gradwire/net/host_addresses.h"
#include "gradwire/net/socket_link.h"
#include "gradwire/net/unix_listener.h"
#include "gradwire/net/unix_socket.h"

namespace gradwire::net {
namespace {

using asio::ip::tcp;

tcp::endpoint endpoint_of(const TcpAddress& address) { return {asio::ip::make_address(address.host), address.port}; }

// A socket that a started program does not inherit, from its first moment on: asio marks sockets a step later.
Descriptor open_tcp_socket(const tcp::endpoint& endpoint) {
  return Descriptor(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
}

// Nothing if the port is taken; the error is in errno.
Descriptor listen_on(const tcp::endpoint& endpoint) {
  Descriptor socket = open_tcp_socket(endpoint);
  // A port whose last owner has just ended is free, though connections of its own linger.
  const int on = 1;
  if (socket && endpoint.port() != 0) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!socket || ::bind(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
      ::listen(socket.get(), longest_accept_queue) != 0)
    return {};
  return socket;
}

Descriptor listen_on(const std::string& host, const PortRange& ports) {
  int error = 0;
  for (uint32_t port = ports.first; port <= ports.last; ++port) {
    if (Descriptor socket = listen_on(endpoint_of({host, static_cast<uint16_t>(port)}))) return socket;
    error = errno;
    // A port below 1024 may need a privilege that the next one does not.
    if (error != EADDRINUSE && error != EACCES) break;
  }
  const std::string why = std::strerror(error);
  if (error == EADDRNOTAVAIL)
    throw InvalidArgumentError(
        fmt::format("tcp_host is {}, which is no address of this host ({}): give one that is, an interface, or `auto` "
                    "(GRADWIRE_TCP_HOST); where others reach it at another address, tcp_advertise "
                    "(GRADWIRE_TCP_ADVERTISE) says that one",
                    host, why));
  throw InvalidArgumentError(
      fmt::format("no port of tcp_port (GRADWIRE_TCP_PORT), {}, can be listened on at {}: {}. Give each worker of this "
                  "host a port of its own, by a range such as 29600-29699",
                  to_string(ports), host, why));
}

TcpAddress address_of(int socket) {
  tcp::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (::getsockname(socket, endpoint.data(), &size) != 0) return {};
  return {endpoint.address().to_string(), endpoint.port()};
}

class SocketTransport : public Transport, public std::enable_shared_from_this<SocketTransport> {
 public:
  SocketTransport(std::shared_ptr<Runtime> runtime, SocketOptions options)
      : runtime_(std::move(runtime)), options_(std::move(options)) {}
  ~SocketTransport() override { close(); }

  void listen(Record& mine, std::function<void(std::shared_ptr<Link>)> accepted) override {
    mine.host = host_of_process();
    mine.user = geteuid();
    const auto accept = [&](SocketKind kind) {
      return [runtime = runtime_, kind, accepted](Descriptor socket) {
        accepted(make_socket_link(runtime, std::move(socket), kind));
      };
    };
    MutexLock lock(mutex_);
    if (options_.unix_domain) {
      unix_ = UnixListener::make(runtime_, options_.check_socket_every, accept(SocketKind::unix_domain));
      mine.unix_path = unix_->path();
    }
    if (!options_.tcp_host.empty()) {
      Descriptor socket = listen_on(options_.tcp_host, options_.tcp_port);
      mine.tcp_address = options_.tcp_advertise.empty() ? to_string(address_of(socket.get())) : options_.tcp_advertise;
      tcp_ = Acceptor::make(runtime_, std::move(socket), accept(SocketKind::tcp));
    }
  }

  void dial(const Record& peer, std::function<void(DialResult)> done) override {
    const bool near =
        options_.unix_domain && !peer.unix_path.empty() && peer.host == host_of_process() && peer.user == geteuid();
    if (near)
      answer(std::move(done), dial_unix(peer.unix_path));
    else if (peer.tcp_address.empty())
      answer(std::move(done), {.outcome = DialOutcome::impossible,
                               .why = "it listens on no address that can be reached from here: it is on another host "
                                      "or of another user, and gave no TCP address"});
    else if (!options_.insecure)
      answer(std::move(done), {.outcome = DialOutcome::impossible,
                               .why = "plain TCP to " + peer.tcp_address +
                                      " needs the option `insecure` (GRADWIRE_INSECURE=1) here too"});
    else
      dial_tcp(peer.tcp_address, std::move(done));
  }

  void close() override {
    MutexLock lock(mutex_);
    if (unix_) unix_->close();
    if (tcp_) tcp_->close();
  }

 private:
  void answer(std::function<void(DialResult)> done, DialResult result) {
    runtime_->post([done = std::move(done), result = std::move(result)] { done(result); });
  }

  DialResult dial_unix(const std::string& path) {
    // A record may name any path. A worker's socket is in a folder of this user; no other is touched.
    if (!is_in_own_folder(path).value_or(true))
      return {.outcome = DialOutcome::impossible,
              .why = "its socket " + path + " is not in a folder that belongs to this user alone"};
    UnixConnection connection = connect_to_unix_socket(path);
    if (!connection.socket) return dial_failed(path, connection.error);
    if (!is_same_user(connection.socket.get()))
      return {.outcome = DialOutcome::impossible, .why = "the process at " + path + " belongs to another user"};
    return {.outcome = DialOutcome::connected,
            .link = make_socket_link(runtime_, std::move(connection.socket), SocketKind::unix_domain)};
  }

  DialResult dial_failed(const std::string& path, int error) {
    if (const std::error_code code(error, std::generic_category()); no_descriptors_left(code))
      return {.outcome = DialOutcome::impossible, .why = no_descriptors(code.message()).what()};
    const std::string why = fmt::format("{}: {}", path, std::strerror(error));
    // EAGAIN means that its queue is full: it lives.
    if (error != ECONNREFUSED && error != ENOENT) return {.why = why};
    // Someone may have removed the path of a worker that lives. It makes the socket anew, and listens at the old one
    // until the new one is there: what is bound already and not yet listened at refuses.
    const std::optional<bool> lives = is_listened_to(path);
    if (lives.value_or(false)) return {.why = why + ", though its process listens: its socket is being made anew"};
    if (error == ENOENT && !lives) return {.outcome = DialOutcome::unreachable, .why = why};
    // Its process was killed, and its folder is left behind.
    if (error == ECONNREFUSED) remove_abandoned_folder(worker_folders(), std::filesystem::path(path).parent_path());
    return {.outcome = DialOutcome::refused, .why = fmt::format("no one listens at its socket any more ({})", why)};
  }

  void dial_tcp(const std::string& text, std::function<void(DialResult)> done) {
    const auto address = parse_tcp_address(text);
    if (!address)
      return answer(std::move(done), {.outcome = DialOutcome::impossible,
                                      .why = "its TCP address is no numeric address and port: " + text});
    const tcp::endpoint endpoint = endpoint_of(*address);
    Descriptor descriptor = open_tcp_socket(endpoint);
    auto socket = std::make_shared<tcp::socket>(runtime_->context());
    asio::error_code bad;
    if (!descriptor)
      bad = {errno, asio::system_category()};
    else
      socket->assign(endpoint.protocol(), descriptor.get(), bad);
    if (bad)
      return answer(std::move(done),
                    {.outcome = DialOutcome::impossible, .why = fmt::format("{}: {}", text, bad.message())});
    descriptor.release();
    // A dial under way must not keep the runtime: it would continue, into the end of the process, for no one.
    socket->async_connect(endpoint, [socket, text, weak = std::weak_ptr(runtime_),
                                     done = std::move(done)](const asio::error_code& error) {
      const std::shared_ptr<Runtime> runtime = weak.lock();
      if (!runtime) return;
      const std::string why = error ? fmt::format("{}: {}", text, error.message()) : "";
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
  Mutex mutex_;
  std::shared_ptr<UnixListener> unix_ GRADWIRE_GUARDED_BY(mutex_);
  std::shared_ptr<Acceptor> tcp_ GRADWIRE_GUARDED_BY(mutex_);
};

void check(const SocketOptions& options) {
  if (options.tcp_host.empty()) {
    if (options.tcp_port != PortRange{} || !options.tcp_advertise.empty())
      throw InvalidArgumentError(
          "tcp_port (GRADWIRE_TCP_PORT) and tcp_advertise (GRADWIRE_TCP_ADVERTISE) need tcp_host (GRADWIRE_TCP_HOST), "
          "which says where to listen");
    return;
  }
  if (!options.insecure)
    throw InvalidArgumentError(
        fmt::format("plain TCP on {} lets anyone in who can reach it, on loopback every user of this host: take "
                    "tcp_host (GRADWIRE_TCP_HOST) away, for Unix sockets alone, or set the option `insecure` "
                    "(GRADWIRE_INSECURE=1)",
                    options.tcp_host));
  if (!parse_address(options.tcp_host) || (is_unspecified(options.tcp_host) && options.tcp_advertise.empty()))
    throw InvalidArgumentError(fmt::format(
        "tcp_host is \"{}\": it has to be the numeric address of this host at which the others reach it, such as "
        "192.0.2.7 (GRADWIRE_TCP_HOST also takes an interface or `auto`)",
        options.tcp_host));
  if (!options.tcp_advertise.empty() && !parse_tcp_address(options.tcp_advertise))
    throw InvalidArgumentError(
        fmt::format("tcp_advertise (GRADWIRE_TCP_ADVERTISE) is \"{}\": it has to be an address and a port, such as "
                    "192.0.2.7:29600 or [fd00::7]:29600",
                    options.tcp_advertise));
  LOG(WARNING) << "gradwire: insecure: plain TCP on " << options.tcp_host
               << "; anyone who can reach it may call this worker";
}

}  // namespace

std::shared_ptr<Transport> make_socket_transport(std::shared_ptr<Runtime> runtime, SocketOptions options) {
  check(options);
  return std::make_shared<SocketTransport>(std::move(runtime), std::move(options));
}

}  // namespace gradwire::net
