// Groups of processes to measure between.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/processes.h"

namespace gradwire::bench {

// Several processes with a worker each; this one is worker0.
template <Registry (*make_registry)()>
struct GroupOfProcesses {
  explicit GroupOfProcesses(int others)
      : store(std::filesystem::temp_directory_path() / ("gradwire-bench-" + to_string(make_incarnation()))) {
    for (int rank = 1; rank <= others; ++rank)
      children.push_back(
          testing::Processes().start(serve, std::to_string(rank) + " " + std::to_string(others + 1) + " " + store));
    worker = Worker::join(make_registry(), {.rank = 0, .world_size = others + 1, .store_file = store});
  }
  ~GroupOfProcesses() {
    worker->leave();
    worker.reset();
    for (const auto& child : children) child->wait();
    std::filesystem::remove(store);
  }
  GroupOfProcesses(const GroupOfProcesses&) = delete;
  GroupOfProcesses& operator=(const GroupOfProcesses&) = delete;

  const std::string store;
  std::vector<std::unique_ptr<testing::Process>> children;
  std::unique_ptr<Worker> worker;

 private:
  static int serve(testing::Child& me) {
    at::set_num_threads(1);  // several processes share the machine
    std::istringstream given(me.argument());
    int rank = 0;
    int size = 0;
    std::string store_file;
    given >> rank >> size >> store_file;
    Worker::join(make_registry(), {.rank = rank, .world_size = size, .store_file = store_file})->leave();
    return 0;
  }
};

template <Registry (*make_registry)()>
struct PairOfProcesses : GroupOfProcesses<make_registry> {
  PairOfProcesses() : GroupOfProcesses<make_registry>(1), peer(this->worker->peer(1)) {}

  // Of both.
  double resident_bytes() const { return resident_bytes(getpid()) + resident_bytes(this->children.front()->id()); }

  const Peer peer;
  const at::Tensor small = at::ones({4});

 private:
  static double resident_bytes(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/statm");
    double size = 0;
    double resident = 0;
    file >> size >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
};

}  // namespace gradwire::bench
