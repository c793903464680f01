// Sockets at 127.0.0.1, and ports that nobody listens at.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

#include "gradwire/net/descriptor.h"

namespace gradwire::testing {

// A socket that does not wait, and the port that it was given.
inline std::pair<net::Descriptor, uint16_t> bound_to_loopback() {
  net::Descriptor bound(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(bound.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(bound.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return {std::move(bound), ntohs(address.sin_port)};
}

inline uint16_t free_port() { return bound_to_loopback().second; }

}  // namespace gradwire::testing
