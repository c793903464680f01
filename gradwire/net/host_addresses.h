// Which addresses this host has, what a name resolves to, and from which address a destination is reached.
//
// Addresses are numeric text as the kernel writes it: "192.0.2.7", "fd00::7", "fe80::7%eth0". An IPv4 address that is
// mapped into IPv6 is written as the IPv4 address. Nothing here sends a packet, except that `resolve` may ask DNS.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace gradwire::net {

struct InterfaceAddress {
  std::string interface;
  std::string address;
  bool up = false;
};

// The addresses of this host's interfaces, IPv4 first. Any other address in 127.0.0.0/8 belongs to this host as well.
std::vector<InterfaceAddress> interface_addresses();

// The address in its one form; nothing if the text is no numeric address.
std::optional<std::string> parse_address(const std::string& text);

// The three below take a numeric address; other text is none of them.
bool is_loopback(const std::string& address);
bool is_unspecified(const std::string& address);
// True for loopback, for the unspecified address (it reaches this host), and for the addresses of the interfaces.
bool belongs_to_this_host(const std::string& address);

// What a name or a numeric address resolves to, in the resolver's order; empty if it does not resolve. May wait for
// DNS: never on the loop.
std::vector<std::string> resolve(const std::string& name);
// Whether one of these addresses belongs to this host.
bool any_belongs_to_this_host(const std::vector<std::string>& addresses);

// The address of this host that a connection to `destination` comes from; nothing if there is no route.
std::optional<std::string> address_that_routes_to(const std::string& destination);
// The same for destinations outside of every network that this host is in.
std::optional<std::string> address_of_default_route();

}  // namespace gradwire::net
