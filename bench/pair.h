// Two processes with a worker each; this one is worker0.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <ATen/ops/ones.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/processes.h"

namespace gradwire::bench {

template <Registry (*make_registry)()>
struct PairOfProcesses {
  PairOfProcesses()
      : store(std::filesystem::temp_directory_path() / ("gradwire-bench-" + to_string(make_incarnation()))),
        child(testing::Processes().start(serve, store)),
        worker(Worker::join(make_registry(), {.rank = 0, .world_size = 2, .store_file = store})),
        peer(worker->peer(1)) {}
  ~PairOfProcesses() {
    worker->leave();
    worker.reset();
    child->wait();
    std::filesystem::remove(store);
  }
  PairOfProcesses(const PairOfProcesses&) = delete;
  PairOfProcesses& operator=(const PairOfProcesses&) = delete;

  // Of both.
  double resident_bytes() const { return resident_bytes(getpid()) + resident_bytes(child->id()); }

  const std::string store;
  std::unique_ptr<testing::Process> child;
  std::unique_ptr<Worker> worker;
  const Peer peer;
  const at::Tensor small = at::ones({4});

 private:
  static int serve(testing::Child& me) {
    Worker::join(make_registry(), {.rank = 1, .world_size = 2, .store_file = me.argument()})->leave();
    return 0;
  }
  static double resident_bytes(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/statm");
    double size = 0;
    double resident = 0;
    file >> size >> resident;
    return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
};

}  // namespace gradwire::bench
