// How many descriptors this process may have open.
//
// The limit that a shell sets (`ulimit -n`, usually 1024) is low for the sake of old programs that use select(). A
// worker needs one descriptor for each peer and for each segment that it shares, so the limit is raised to the hard
// one, as Go's runtime does. A child made by fork() gets the old limit back, and with it the programs that it starts.
// One made by posix_spawn(), system(), popen() or vfork() runs no code of ours and keeps the raised limit.
#pragma once

#include <string>
#include <system_error>

#include "gradwire/base/error.h"

namespace gradwire::net {

// Once for the process; again does nothing.
void raise_descriptor_limit();
// For a forked child, where only what is safe in a signal handler may be done.
void restore_descriptor_limit() noexcept;

// A quarter of what this process may open, which is what any one use takes at most: shared segments, connections that
// have not said who they are. The rest is for the program's own files, and for peers.
size_t shared_descriptors();

// Whether the system refused a descriptor because this process, or the host, has too many.
bool no_descriptors_left(const std::error_code& error);
// Names the limit and the cure.
OverloadedError no_descriptors(const std::string& what);

// Runs what needs descriptors. Throws OverloadedError if there are none left.
template <class Act>
auto with_descriptors(const Act& act) {
  try {
    return act();
  } catch (const std::system_error& error) {
    if (no_descriptors_left(error.code())) throw no_descriptors(error.what());
    throw;
  }
}

}  // namespace gradwire::net
