// Rows of groups: many processes on a host (closes C9), many workers in a process.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <utility>

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

// "RANK SIZE STORE": joins, calls its neighbours, hears of the first death, and leaves, when it is told to, and says so
// each time.
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
  if (me.hear() == "watch") {
    std::promise<void> died;
    worker->on_peer_event([&died, heard = false](const PeerEvent& event) mutable {
      if (event.kind == PeerEvent::Kind::died && !std::exchange(heard, true)) died.set_value();
    });
    me.say("watches");
    died.get_future().wait();
    me.say("heard");
    me.hear();
  }
  worker->leave();
  me.say("left");
  worker.reset();
  return 0;
}

struct Measured {
  double join = 0;
  double leave = 0;
  double idle_megabytes = 0;
  double death = 0;
};

enum class End : uint8_t { leave, death };

Measured measure(int size, End end = End::leave) {
  const std::string store =
      std::filesystem::temp_directory_path() / ("gradwire-bench-" + to_string(make_incarnation()));
  std::vector<std::unique_ptr<testing::Process>> members;
  for (int rank = 0; rank < size; ++rank)
    members.push_back(
        testing::Processes().start(member, std::to_string(rank) + " " + std::to_string(size) + " " + store));
  for (auto& each : members) each->expect("ready");
  const auto all_say = [&](const std::string& answer) {
    for (auto& each : members)
      if (each->hear() != answer) std::abort();
  };
  const auto tell_all = [&](const std::string& order) {
    for (auto& each : members) each->say(order);
  };
  Measured measured;
  measured.join = seconds_of([&] {
    tell_all("go");
    for (auto& each : members) measured.idle_megabytes = std::max(measured.idle_megabytes, std::stod(each->hear()));
  });
  tell_all("go");
  all_say("called");
  if (end == End::death) {
    tell_all("watch");
    all_say("watches");
    // Its neighbours have called it, and find it gone; the others hear of it.
    measured.death = seconds_of([&] {
      members.back()->kill();
      members.pop_back();
      all_say("heard");
    });
  }
  measured.leave = seconds_of([&] {
    tell_all("leave");
    all_say("left");
  });
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
  rows.push_back({"group.death.32", "s", [] { return measure(32, End::death).death; }});
  rows.push_back({"group.in_process.1000", "s", [] { return in_process(1000); }});
  rows.push_back({"group.idle_memory", "MB", [] { return measure(2).idle_megabytes; }});
  return rows;
}

}  // namespace gradwire::bench
