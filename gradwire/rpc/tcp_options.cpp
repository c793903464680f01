#include "gradwire/rpc/tcp_options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gradwire/base/error.h"
#include "gradwire/net/host_addresses.h"
#include "gradwire/net/loop.h"
#include "gradwire/net/questions.h"

namespace gradwire {
namespace {

constexpr auto between_lookups = std::chrono::milliseconds(200);
// For the name in MASTER_ADDR, where no TCP is configured: it may be a name of this host that is known soon. Longer
// than that nobody waits, because it is most likely another host.
constexpr std::chrono::milliseconds patience_without_tcp = std::chrono::seconds(5);

bool is_link_local(const std::string& address) { return address.find('%') != std::string::npos; }

// A name may come to be while its pods start: it is looked up again and again. Empty: it did not resolve in this time.
std::vector<std::string> resolve_master_address(const WorkerOptions& options, std::chrono::milliseconds limit) {
  if (auto address = net::parse_address(options.master_address)) return {std::move(*address)};
  const net::Time deadline = net::deadline_after(limit);
  for (;;) {
    const auto addresses =
        net::Questions().ask(deadline, [name = options.master_address] { return net::resolve(name); });
    if (addresses && !addresses->empty()) return *addresses;
    if (std::chrono::steady_clock::now() >= deadline - between_lookups) return {};
    std::this_thread::sleep_for(between_lookups);
  }
}

std::string automatic_host(const WorkerOptions& options) {
  const std::vector<std::string> addresses = resolve_master_address(options, options.join_timeout);
  if (addresses.empty())
    throw TimeoutError(
        fmt::format("MASTER_ADDR (master_address) is {}, which did not resolve within {} ms: GRADWIRE_TCP_HOST=auto "
                    "(tcp_host) needs its address to choose the one that routes there. Correct the name, or give "
                    "GRADWIRE_TCP_HOST an address or an interface",
                    options.master_address, options.join_timeout.count()));
  for (const std::string& address : addresses) {
    if (net::is_loopback(address) || net::is_unspecified(address)) continue;
    if (const auto own = net::address_that_routes_to(address); own && !net::is_loopback(*own)) return *own;
  }
  if (const auto own = net::address_of_default_route()) return *own;
  throw InvalidArgumentError(
      fmt::format("GRADWIRE_TCP_HOST=auto (tcp_host): this host has no route to MASTER_ADDR={} that is not loopback, "
                  "and no default route: give GRADWIRE_TCP_HOST an address or an interface",
                  options.master_address));
}

std::string tcp_host(const WorkerOptions& options) {
  if (options.tcp_host == "auto") return automatic_host(options);
  if (const auto address = net::parse_address(options.tcp_host)) return *address;
  std::vector<std::string> known;
  std::optional<std::string> found;
  for (const net::InterfaceAddress& own : net::interface_addresses()) {
    if (!own.up || is_link_local(own.address)) continue;
    if (own.interface == options.tcp_host && !found) found = own.address;
    known.push_back(fmt::format("{} ({})", own.interface, own.address));
  }
  if (found) return *found;
  throw InvalidArgumentError(
      fmt::format("GRADWIRE_TCP_HOST (tcp_host) is \"{}\": it has to be a numeric address of this host, an interface "
                  "that is up and has one, or auto. This host has {}",
                  options.tcp_host, fmt::join(known, ", ")));
}

// Where others reach the worker, with a number for the name: who dials looks nothing up.
std::string tcp_advertise(const WorkerOptions& options, const std::string& listens_at) {
  const auto refuse = [&](const std::string& why) -> InvalidArgumentError {
    return InvalidArgumentError(
        fmt::format("GRADWIRE_TCP_ADVERTISE (tcp_advertise) is \"{}\", {}", options.tcp_advertise, why));
  };
  const auto given = net::split_tcp_address(options.tcp_advertise);
  if (!given) throw refuse("which is not HOST:PORT, such as 192.0.2.7:29600, [fd00::7]:29600 or node7:29600");
  if (const auto number = net::parse_address(given->host)) return to_string(net::TcpAddress{*number, given->port});
  const std::vector<std::string> addresses = net::resolve(given->host);
  if (addresses.empty()) throw refuse("and this name does not resolve on this host: correct it, or give its address");
  const auto outside = std::find_if(addresses.begin(), addresses.end(),
                                    [](const std::string& address) { return !net::is_loopback(address); });
  if (outside != addresses.end()) return to_string(net::TcpAddress{*outside, given->port});
  // Debian's /etc/hosts has the own name at 127.0.1.1: others would dial themselves.
  if (!net::is_loopback(listens_at))
    throw refuse("and on this host that name is the loopback address " + addresses.front() +
                 ": give the address at which the others reach it");
  return to_string(net::TcpAddress{addresses.front(), given->port});
}

std::string name_of_this_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Without TCP all workers are on one host. Throws where the group meets on another one, or at a name of which that
// cannot be told: a worker that waited at its own loopback address would not find the others.
void require_meeting_on_this_host(const WorkerOptions& options) {
  if (options.store || !options.store_file.empty()) return;
  // The name of this host need not resolve, unless it is used: somebody else's store is dialled there.
  const std::string own = options.holds_store == false ? "" : name_of_this_host();
  if (!own.empty() && options.master_address == own) return;
  const auto limit = std::min(options.join_timeout, patience_without_tcp);
  const std::vector<std::string> addresses = resolve_master_address(options, limit);
  if (net::any_belongs_to_this_host(addresses)) return;
  if (!own.empty() && addresses.empty() && options.master_address.starts_with(own + ".")) return;  // with its domain
  throw InvalidArgumentError(fmt::format(
      "MASTER_ADDR (master_address) is {}, {}. If it is another host, set GRADWIRE_TCP_HOST=auto (tcp_host; or an "
      "address of this host, or an interface) and GRADWIRE_INSECURE=1 (insecure; TCP is not encrypted yet) at every "
      "worker, because the workers there cannot reach this one otherwise. If all workers run on this host, set "
      "MASTER_ADDR=127.0.0.1",
      options.master_address,
      addresses.empty() ? fmt::format("which did not resolve within {} ms, and no TCP is configured", limit.count())
                        : "another host, and no TCP is configured"));
}

}  // namespace

net::SocketOptions socket_options(const WorkerOptions& options) {
  net::SocketOptions sockets{.tcp_port = options.tcp_port, .insecure = options.insecure};
  if (options.tcp_host.empty()) {
    require_meeting_on_this_host(options);
    sockets.tcp_advertise = options.tcp_advertise;  // refused, with a reason, where there is no tcp_host
    return sockets;
  }
  if (!options.insecure)
    throw InvalidArgumentError(
        fmt::format("GRADWIRE_TCP_HOST (tcp_host) is {}, and plain TCP lets anyone in who can reach it, on loopback "
                    "every user of this host: set GRADWIRE_INSECURE=1 (insecure) to allow that, or take "
                    "GRADWIRE_TCP_HOST away, for Unix sockets alone",
                    options.tcp_host));
  sockets.tcp_host = tcp_host(options);
  if (!options.tcp_advertise.empty()) sockets.tcp_advertise = tcp_advertise(options, sockets.tcp_host);
  return sockets;
}

}  // namespace gradwire
