// What WorkerOptions say about sockets, resolved for the host that this process runs on.
#pragma once

#include "gradwire/net/socket_transport.h"
#include "gradwire/rpc/worker_options.h"

namespace gradwire {

// Resolves tcp_host and tcp_advertise, which may ask DNS, and wait join_timeout for the name in master_address. Throws
// InvalidArgumentError for what cannot be used, and at once where the group meets on another host (master_address) and
// no TCP is configured: nobody there could reach this worker.
net::SocketOptions socket_options(const WorkerOptions& options);

}  // namespace gradwire
