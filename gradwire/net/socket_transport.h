// Links over sockets: a Unix socket to a worker of the same user on the same host, TCP to others.
//
// The Unix socket lies in a fresh folder that only this user can enter, and the kernel is asked who is at the other
// end. Plain TCP asks nobody who they are, so it takes the option named `insecure`, on loopback too: every user of the
// host can connect there. A transport without it neither listens on TCP nor dials it, whatever a record says.
#pragma once

#include <memory>
#include <string>

#include "gradwire/net/runtime.h"
#include "gradwire/net/tcp_address.h"
#include "gradwire/net/transport.h"

namespace gradwire::net {

struct SocketOptions {
  bool unix_domain = true;
  // The numeric address to listen on for TCP; empty: no TCP.
  std::string tcp_host;
  // The first free port of these is taken.
  PortRange tcp_port;
  // Where others reach this worker, with a numeric host; empty: where it listens.
  std::string tcp_advertise;
  // Plain TCP: anyone who can reach this worker may call what is registered.
  bool insecure = false;
  // How often it looks whether the Unix socket is still in its place.
  Duration check_socket_every = std::chrono::seconds(2);
};

// Throws InvalidArgumentError for TCP without `insecure`, and for addresses that cannot be used.
std::shared_ptr<Transport> make_socket_transport(std::shared_ptr<Runtime> runtime, SocketOptions options);

}  // namespace gradwire::net
