#include "gradwire/net/tcp_address.h"

#include <charconv>

#include <fmt/format.h>

#include "gradwire/net/host_addresses.h"

namespace gradwire::net {
namespace {

std::optional<uint16_t> parse_port(std::string_view text) {
  uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || stopped != end || port == 0) return {};
  return port;
}

}  // namespace

std::optional<TcpAddress> split_tcp_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  std::string host = text.substr(0, colon);
  const auto port = parse_port(std::string_view(text).substr(colon + 1));
  if (!port) return {};
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  // A colon stands in IPv6 addresses alone, and all of them have one.
  if (host.empty() || in_brackets != (host.find(':') != std::string::npos) ||
      host.find_first_of("[]") != std::string::npos)
    return {};
  return TcpAddress{std::move(host), *port};
}

std::optional<TcpAddress> parse_tcp_address(const std::string& text) {
  auto address = split_tcp_address(text);
  if (!address) return {};
  auto host = parse_address(address->host);
  if (!host) return {};
  return TcpAddress{std::move(*host), address->port};
}

std::string to_string(const TcpAddress& address) {
  if (address.host.find(':') == std::string::npos) return fmt::format("{}:{}", address.host, address.port);
  return fmt::format("[{}]:{}", address.host, address.port);
}

std::optional<PortRange> parse_port_range(const std::string& text) {
  const size_t dash = text.find('-');
  const auto first = parse_port(std::string_view(text).substr(0, dash));
  const auto last = dash == std::string::npos ? first : parse_port(std::string_view(text).substr(dash + 1));
  if (!first || !last || *first > *last) return {};
  return PortRange{*first, *last};
}

std::string to_string(const PortRange& ports) {
  return ports.first == ports.last ? fmt::format("{}", ports.first) : fmt::format("{}-{}", ports.first, ports.last);
}

}  // namespace gradwire::net
