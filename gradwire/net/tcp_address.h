// A TCP address as records carry it: "192.0.2.7:29600", and for IPv6 "[fd00::7]:29600".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gradwire::net {

struct TcpAddress {
  std::string host;
  uint16_t port = 0;

  bool operator==(const TcpAddress&) const = default;
};

// Splits a text in this form. The host may be a name; IPv6 addresses need their brackets; the port is 1 to 65535.
std::optional<TcpAddress> split_tcp_address(const std::string& text);
// The same with a numeric host, in its one form. Names are refused, so nothing is looked up.
std::optional<TcpAddress> parse_tcp_address(const std::string& text);
std::string to_string(const TcpAddress& address);

// Ports from `first` to `last`; 0 to 0 stands for any port that is free.
struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;

  bool operator==(const PortRange&) const = default;
};

// "29600" or "29600-29699".
std::optional<PortRange> parse_port_range(const std::string& text);
std::string to_string(const PortRange& ports);

}  // namespace gradwire::net
