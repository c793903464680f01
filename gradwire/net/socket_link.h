// A link over a connected stream socket, Unix or TCP.
#pragma once

#include <memory>

#include "gradwire/net/link.h"
#include "gradwire/net/runtime.h"

namespace gradwire::net {

enum class SocketKind { unix_domain, tcp };

// Takes over the connected socket, which was opened with SOCK_CLOEXEC, and makes it non-blocking.
std::shared_ptr<Link> make_socket_link(std::shared_ptr<Runtime> runtime, Descriptor socket, SocketKind kind);

}  // namespace gradwire::net
