// What WorkerOptions say about sockets, resolved for the host that this process runs on.
#pragma once

#include "gradwire/net/socket_transport.h"
#include "gradwire/rpc/worker_options.h"

namespace gradwire {

// Resolves tcp_host and tcp_advertise, which may ask DNS, and wait join_timeout for the name in master_address. Throws
// InvalidArgumentError for what cannot be used. Where no TCP is configured and the group meets on another host
// (master_address), it throws at once, because nobody there could reach this worker; where that name does not resolve,
// after a few seconds.
net::SocketOptions socket_options(const WorkerOptions& options);

}  // namespace gradwire
