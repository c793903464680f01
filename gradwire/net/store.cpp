#include "gradwire/net/store.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "gradwire/base/error.h"
#include "gradwire/net/descriptor.h"
#include "gradwire/net/host_addresses.h"
#include "gradwire/net/loop.h"
#include "gradwire/net/patience.h"
#include "gradwire/net/private_path.h"
#include "gradwire/net/questions.h"

namespace gradwire::net {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// How long one attempt to connect may take: a firewall may drop it without a word.
constexpr auto attempt_limit = std::chrono::seconds(3);
constexpr auto shortest_pause = Milliseconds(5);
constexpr auto longest_pause = Milliseconds(250);
// With this for a listening descriptor, torch takes the server that the process already has for the port, and never
// makes one.
constexpr int no_new_server = -1;

std::string host_and_port(const StoreAddress& address, uint16_t port) {
  return fmt::format("{}:{}", address.dialled, port);
}

struct SocketAddress {
  sockaddr_storage value{};
  socklen_t size = sizeof value;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&value); }
};

// Of a numeric address.
std::optional<SocketAddress> socket_address(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  SocketAddress result;
  std::memcpy(&result.value, found->ai_addr, found->ai_addrlen);
  result.size = found->ai_addrlen;
  return result;
}

// Nothing, and errno, if it cannot be had.
Descriptor listen_at(const SocketAddress& address) {
  Descriptor listening(::socket(address.value.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  const int no = 0;
  if (!listening) return {};
  ::setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.value.ss_family == AF_INET6) ::setsockopt(listening.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (::bind(listening.get(), address.get(), address.size) != 0 || ::listen(listening.get(), SOMAXCONN) != 0) return {};
  return listening;
}

Descriptor listen_for_store(const StoreAddress& address, uint16_t port) {
  if (!address.listens.empty()) {
    const auto at = socket_address(address.listens, port);
    if (at) return listen_at(*at);
    errno = EADDRNOTAVAIL;
    return {};
  }
  Descriptor listening = listen_at(*socket_address("::", port));
  if (!listening && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
    listening = listen_at(*socket_address("0.0.0.0", port));
  return listening;
}

// Empty if somebody accepts a connection there; else why not.
std::string try_to_connect(const std::string& address, uint16_t port, Clock::time_point deadline) {
  const auto to = socket_address(address, port);
  if (!to) return "not an address";
  const Descriptor socket(::socket(to->value.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return std::strerror(errno);
  if (::connect(socket.get(), to->get(), to->size) != 0) {
    if (errno != EINPROGRESS) return std::strerror(errno);
    const Clock::time_point until = std::min(deadline, Clock::now() + attempt_limit);
    pollfd wanted{.fd = socket.get(), .events = POLLOUT, .revents = 0};
    int ready = 0;
    do {
      const auto left = std::chrono::duration_cast<Milliseconds>(until - Clock::now()).count();
      ready = ::poll(&wanted, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    } while (ready < 0 && errno == EINTR);
    if (ready == 0) return "no answer";
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return std::strerror(error);
  }
  // A port of the range for outgoing connections, where nobody listens, may be given to this very socket: then it is
  // connected with itself.
  SocketAddress own;
  SocketAddress other;
  ::getsockname(socket.get(), own.get(), &own.size);
  ::getpeername(socket.get(), other.get(), &other.size);
  if (own.size == other.size && std::memcmp(&own.value, &other.value, own.size) == 0) return "nobody listens there";
  return "";
}

[[noreturn]] void cannot_be_reached(const StoreAddress& address, uint16_t port, const std::string& why) {
  throw TimeoutError(
      fmt::format("the store at {} cannot be reached: {}. Is rank 0, which holds it, up, and have all the same address "
                  "and port (MASTER_ADDR, MASTER_PORT)?",
                  host_and_port(address, port), why));
}

// The numeric address that accepts connections. c10d would wait as well, but past its limit, and it logs a stack for
// each attempt.
std::string wait_until_served(const StoreAddress& address, uint16_t port, Clock::time_point deadline) {
  Patience waiting;
  auto pause = shortest_pause;
  for (;;) {
    const auto addresses = Questions().ask(deadline, [name = address.dialled] { return resolve(name); });
    std::string why = addresses ? fmt::format("the name {} has no address here", address.dialled)
                                : fmt::format("the name {} could not be resolved in time", address.dialled);
    for (const std::string& each : addresses.value_or(std::vector<std::string>())) {
      why = try_to_connect(each, port, deadline);
      if (why.empty()) return each;
    }
    const Clock::time_point now = Clock::now();
    if (now >= deadline) cannot_be_reached(address, port, why);
    if (waiting.is_over())
      LOG(WARNING) << fmt::format(
          "gradwire: waiting for the store at {} (MASTER_ADDR={}), which rank 0 or torchrun's agent serves: {}; gives "
          "up in {} s",
          host_and_port(address, port), address.name, why,
          std::chrono::duration_cast<std::chrono::seconds>(deadline - now).count());
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - now));
    pause = std::min(pause * 2, longest_pause);
  }
}

// c10d's own constructor: it connects, and asks the server for an answer without a limit.
StorePointer connect(const StoreAddress& address, const std::string& host, const c10d::TCPStoreOptions& options,
                     Clock::time_point deadline) {
  const auto store = Questions().ask(
      deadline, [host, options]() -> StorePointer { return c10::make_intrusive<c10d::TCPStore>(host, options); });
  if (!store) cannot_be_reached(address, options.port, "it accepts connections and does not answer");
  return *store;
}

StorePointer serve(const StoreAddress& address, c10d::TCPStoreOptions options, Clock::time_point deadline) {
  const uint16_t port = options.port;
  Descriptor listening = listen_for_store(address, port);
  const bool is_new = static_cast<bool>(listening);
  const std::string why = is_new ? "" : std::strerror(errno);
  try {
    if (is_new && address.listens.empty())
      LOG(WARNING) << fmt::format(
          "gradwire: the store of this job listens on all interfaces at port {}, because MASTER_ADDR={} is no address "
          "of this host that other hosts reach. Whoever reaches it can read and write it",
          port, address.name);
    // A server of this process answers at once; where another process holds the port, nobody is dialled.
    const std::string reached = is_new ? wait_until_served(address, port, deadline) : address.dialled;
    // From here on torch closes it.
    options.masterListenFd = is_new ? listening.release() : no_new_server;
    StorePointer store = connect(address, reached, options, deadline);
    if (is_new && !reached_at_its_name(address))
      LOG(WARNING) << fmt::format(
          "gradwire: the store of this job listens at {}:{}, and not at MASTER_ADDR={}. torch's process groups dial "
          "MASTER_ADDR: if you use them, set MASTER_ADDR=127.0.0.1 for all, or give them a port of their own",
          address.listens, port, address.name);
    return store;
  } catch (const c10::Error& error) {
    throw InvalidArgumentError(fmt::format(
        "the store cannot be opened at {} by rank 0, which holds it: {}. Choose another port (MASTER_PORT) for all",
        host_and_port(address, port), why.empty() ? error.what_without_backtrace() : why));
  }
}

}  // namespace

StorePointer open_tcp_store(const StoreAddress& address, uint16_t port, bool holds_it, Milliseconds timeout) {
  const Clock::time_point deadline = deadline_after(timeout);
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = holds_it;
  options.waitWorkers = false;
  options.timeout = timeout;
  options.multiTenant = true;
  try {
    if (holds_it) return serve(address, options, deadline);
    return connect(address, wait_until_served(address, port, deadline), options, deadline);
  } catch (const c10::Error& error) {
    cannot_be_reached(address, port, error.what_without_backtrace());
  }
}

StorePointer open_file_store(const std::string& path) {
  require_own_file(path, "the store (GRADWIRE_STORE)");
  return c10::make_intrusive<c10d::FileStore>(path, -1);
}

}  // namespace gradwire::net
