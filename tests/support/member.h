// A worker of a fixed group in a process of its own, which meets the others in a store file.
#pragma once

#include <memory>
#include <sstream>
#include <string>

#include "gradwire/rpc/worker.h"
#include "gradwire/testing/processes.h"

#include "tests/support/store_file.h"

namespace gradwire::testing {

// Starts `program` as this member.
inline std::unique_ptr<Process> start_member(Processes::Program program, int rank, int size, const StoreFile& store) {
  return Processes().start(program, std::to_string(rank) + " " + std::to_string(size) + " " + store.path);
}

// In the started process: which member it is.
inline WorkerOptions member_options(const Child& me) {
  std::istringstream given(me.argument());
  int rank = 0;
  int size = 0;
  std::string store;
  given >> rank >> size >> store;
  return {.rank = rank, .world_size = size, .store_file = store};
}

// Joins, says "joined", and serves until all leave.
inline int serve_as_member(const Registry& registry, Child& me) {
  const auto worker = Worker::join(registry, member_options(me));
  me.say("joined");
  worker->leave();
  return 0;
}

}  // namespace gradwire::testing
