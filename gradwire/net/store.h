// The stores in which workers meet: one that rank 0 serves over TCP, or a file.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "gradwire/net/store_address.h"

namespace gradwire::net {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

// A TCPStore. Whoever `holds_it` serves it, unless this process serves that port already: torch keeps one server for
// each port of a process, so its process groups and Gradwire share one. The others wait until it is served, and log
// whom they wait for. Throws InvalidArgumentError where it cannot be served, TimeoutError where it does not answer.
StorePointer open_tcp_store(const StoreAddress& address, uint16_t port, bool holds_it,
                            std::chrono::milliseconds timeout);

// A FileStore, for workers on one host. The file is made for this user alone (0600). Throws InvalidArgumentError if its
// folder does not exist, or another user could write to it.
StorePointer open_file_store(const std::string& path);

}  // namespace gradwire::net
