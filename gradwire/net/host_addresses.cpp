#include "gradwire/net/host_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "gradwire/net/descriptor.h"

namespace gradwire::net {
namespace {

using AddressInfo = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// A connected UDP socket makes the kernel choose a route, and sends nothing. These are addresses that only the default
// route leads to: public ones, because hosts may have routes of their own for the ranges kept for documentation.
constexpr std::array outside_addresses = {"1.1.1.1", "2606:4700:4700::1111"};
constexpr const char* any_port = "9";

AddressInfo look_up(const std::string& name, int flags, const char* service = nullptr) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (name.empty() || ::getaddrinfo(name.c_str(), service, &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

bool is_mapped(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_V4MAPPED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

std::optional<std::string> text_of(const sockaddr* address, socklen_t size) {
  sockaddr_in plain{};
  if (is_mapped(address)) {
    plain.sin_family = AF_INET;
    const auto& bytes = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr.s6_addr;
    std::memcpy(&plain.sin_addr, bytes + 12, sizeof plain.sin_addr);
    address = reinterpret_cast<const sockaddr*>(&plain);
    size = sizeof plain;
  }
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text.data();
}

std::optional<in_addr> ipv4(const std::string& address) {
  in_addr value{};
  if (::inet_pton(AF_INET, address.c_str(), &value) != 1) return {};
  return value;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const int family : {AF_INET, AF_INET6}) {
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      if (auto address = text_of(entry->ifa_addr, size))
        found.push_back({entry->ifa_name, std::move(*address), (entry->ifa_flags & IFF_UP) != 0});
    }
  }
  return found;
}

std::optional<std::string> parse_address(const std::string& text) {
  // getaddrinfo takes "1.2" and "0x7f000001" for addresses too; here an IPv4 address has four parts.
  if (text.find(':') == std::string::npos && !ipv4(text)) return {};
  const AddressInfo found = look_up(text, AI_NUMERICHOST);
  if (!found) return {};
  return text_of(found->ai_addr, found->ai_addrlen);
}

bool is_loopback(const std::string& address) {
  const auto parsed = parse_address(address);
  if (!parsed) return false;
  const auto value = ipv4(*parsed);
  return value ? ntohl(value->s_addr) >> 24U == IN_LOOPBACKNET : *parsed == "::1";
}

bool is_unspecified(const std::string& address) {
  const auto parsed = parse_address(address);
  return parsed && (*parsed == "0.0.0.0" || *parsed == "::");
}

bool belongs_to_this_host(const std::string& address) { return any_belongs_to_this_host({address}); }

std::vector<std::string> resolve(const std::string& name) {
  std::vector<std::string> found;
  const AddressInfo all = look_up(name, 0);
  for (const addrinfo* entry = all.get(); entry != nullptr; entry = entry->ai_next) {
    auto address = text_of(entry->ai_addr, entry->ai_addrlen);
    if (address && std::find(found.begin(), found.end(), *address) == found.end()) found.push_back(std::move(*address));
  }
  return found;
}

bool any_belongs_to_this_host(const std::vector<std::string>& addresses) {
  const std::vector<InterfaceAddress> own = interface_addresses();
  return std::any_of(addresses.begin(), addresses.end(), [&](const std::string& text) {
    const auto address = parse_address(text);
    if (!address) return false;
    return is_loopback(*address) || is_unspecified(*address) ||
           std::any_of(own.begin(), own.end(), [&](const InterfaceAddress& one) { return one.address == *address; });
  });
}

std::optional<std::string> address_that_routes_to(const std::string& destination) {
  const AddressInfo to = look_up(destination, AI_NUMERICHOST, any_port);
  if (!to) return {};
  const Descriptor socket(::socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), to->ai_addr, to->ai_addrlen) != 0) return {};
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) return {};
  return text_of(reinterpret_cast<const sockaddr*>(&own), size);
}

std::optional<std::string> address_of_default_route() {
  for (const char* outside : outside_addresses)
    if (auto address = address_that_routes_to(outside)) return address;
  return {};
}

}  // namespace gradwire::net
