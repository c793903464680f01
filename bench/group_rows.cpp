// Rows of groups: many processes on a host (closes C9), many workers in a process.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <ATen/ops/ones.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"
#include "gradwire/testing/processes.h"

#include "row.h"

namespace gradwire::bench {
namespace {

constexpr Function<int(int)> echo{"echo"};

Registry make_registry() {
  Registry registry;
  registry.add(echo, [](int x) { return x; });
  return registry;
}

double resident_megabytes() {
  std::ifstream file("/proc/self/statm");
  double size = 0;
  double resident = 0;
  file >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

// "RANK SIZE STORE": joins, calls, leaves when told, and says so each time.
int member(testing::Child& me) {
  std::istringstream given(me.argument());
  int rank = 0;
  int size = 0;
  std::string store;
  given >> rank >> size >> store;
  me.say("ready");
  me.hear();
  const double before = resident_megabytes();
  auto worker = Worker::join(make_registry(), {.rank = rank, .world_size = size, .store_file = store});
  me.say(std::to_string(resident_megabytes() - before));
  me.hear();
  for (int i = 0; i < 3; ++i) worker->peer((rank + 1 + i) % size).call(echo, i).get();
  me.say("called");
  me.hear();
  worker->leave();
  me.say("left");
  worker.reset();
  return 0;
}

struct Measured {
  double join = 0;
  double leave = 0;
  double idle_megabytes = 0;
};

Measured measure(int size) {
  const std::string store =
      std::filesystem::temp_directory_path() / ("gradwire-bench-" + to_string(make_incarnation()));
  std::vector<std::unique_ptr<testing::Process>> members;
  for (int rank = 0; rank < size; ++rank)
    members.push_back(
        testing::Processes().start(member, std::to_string(rank) + " " + std::to_string(size) + " " + store));
  for (auto& each : members) each->expect("ready");
  const auto all = [&](const std::string& answer, double* megabytes) {
    for (auto& each : members) each->say("go");
    for (auto& each : members) {
      const std::string heard = each->hear();
      if (megabytes != nullptr) *megabytes = std::max(*megabytes, std::stod(heard));
      if (megabytes == nullptr && heard != answer) std::abort();
    }
  };
  Measured measured;
  measured.join = seconds_of([&] { all("", &measured.idle_megabytes); });
  all("called", nullptr);
  measured.leave = seconds_of([&] { all("left", nullptr); });
  for (auto& each : members) each->wait();
  std::filesystem::remove(store);
  return measured;
}

// Each joins, calls its neighbour, leaves.
double in_process(int size) {
  const Registry registry = make_registry();
  return seconds_of([&] {
    testing::Cluster cluster(size, registry);
    std::vector<Future<int>> futures;
    for (int rank = 0; rank < size; ++rank) futures.push_back(cluster[rank].peer((rank + 1) % size).call(echo, rank));
    for (int rank = 0; rank < size; ++rank)
      if (futures[static_cast<size_t>(rank)].get() != rank) std::abort();
    cluster.leave();
  });
}

}  // namespace

std::vector<Row> group_rows() {
  std::vector<Row> rows;
  for (const int size : {2, 32, 128}) {
    rows.push_back({"group.join." + std::to_string(size), "s", [size] { return measure(size).join; }});
    rows.push_back({"group.leave." + std::to_string(size), "s", [size] { return measure(size).leave; }});
  }
  rows.push_back({"group.in_process.1000", "s", [] { return in_process(1000); }});
  rows.push_back({"group.idle_memory", "MB", [] { return measure(2).idle_megabytes; }});
  return rows;
}

}  // namespace gradwire::bench
