// Links over sockets: a Unix socket to a worker of the same user on the same host, TCP to others.
//
// The Unix socket lies in a fresh folder that only this user can enter, and the kernel is asked who is at the other
// end. Plain TCP is for the loopback interface; elsewhere only with the option named `insecure`.
#pragma once

#include <memory>
#include <string>

#include "gradwire/net/runtime.h"
#include "gradwire/net/transport.h"

namespace gradwire::net {

struct SocketOptions {
  bool unix_domain = true;
  // The address to listen on for TCP, without a port; empty: no TCP.
  std::string tcp_host;
  // Plain TCP on an address that is not loopback: anyone on the network may call what is registered.
  bool insecure = false;
};

// Throws InvalidArgumentError for plain TCP beyond loopback without `insecure`.
std::shared_ptr<Transport> make_socket_transport(std::shared_ptr<Runtime> runtime, SocketOptions options);

}  // namespace gradwire::net
