// A link: a two-way stream of bytes between two workers, that may break at any moment. Sessions make it whole again.
//
// Kinds: Unix and TCP sockets (socket_link.h), and in-process ones for tests and for workers that share a process
// (memory_network.h). Nothing above this interface knows which it has.
#pragma once

#include <sys/uio.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gradwire/net/descriptor.h"
#include "gradwire/net/loop.h"

namespace gradwire::net {

// The outcome of one attempt to read or write; zero bytes and not closed: would block.
struct Transfer {
  size_t bytes = 0;
  bool closed = false;
  // Of those that were sent to us the system could not give us all, or it takes none from us now.
  bool descriptors_lost = false;
};

// `read` is called by one thread at a time, and so is `write`; the two may run at once. All else: any thread.
class Link {
 public:
  virtual ~Link() = default;

  // Neither ever blocks.
  virtual Transfer write(std::span<const iovec> buffers, std::span<const int> descriptors) = 0;
  virtual Transfer read(std::span<const iovec> buffers, std::vector<Descriptor>& descriptors) = 0;

  // Ends it in both directions. The other side sees the end; so does a thread that waits on `descriptor`.
  virtual void close() = 0;

  // Called by the loop while wanted, until `close`. Set before the first `want_`; replaced only on the loop, and not
  // inside one of them.
  virtual void watch(std::function<void()> readable, std::function<void()> writable) = 0;
  virtual void want_readable(bool wanted) = 0;
  // Called once when there is room again.
  virtual void want_writable() = 0;

  // What a thread may wait on instead of the loop; -1 if there is no such thing.
  virtual int descriptor() const = 0;
  virtual bool passes_descriptors() const = 0;
  // "unix", "tcp", "memory": for messages to people.
  virtual std::string kind() const = 0;
};

}  // namespace gradwire::net
