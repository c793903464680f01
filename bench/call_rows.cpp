// Rows of the rpc layer: calls between two processes.
#include <filesystem>

#include <ATen/ops/ones.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/processes.h"

#include "row.h"

namespace gradwire::bench {
namespace {

constexpr Function<at::Tensor(at::Tensor, at::Tensor)> add{"add"};

Registry make_registry() {
  Registry registry;
  registry.add(add, [](const at::Tensor& a, const at::Tensor& b) { return a.add(b); });
  return registry;
}

int serve(testing::Child& me) {
  Worker::join(make_registry(), {.rank = 1, .world_size = 2, .store_file = me.argument()})->leave();
  return 0;
}

double blocking_function() {
  const std::string store =
      std::filesystem::temp_directory_path() / ("gradwire-bench-" + to_string(make_incarnation()));
  auto child = testing::Processes().start(serve, store);
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 2, .store_file = store});
  const Peer peer = worker->peer(1);
  const at::Tensor small = at::ones({4});
  const double seconds = median_seconds(10000, [&] { peer.call(add, small, small).get(); });
  worker->leave();
  worker.reset();
  child->wait();
  std::filesystem::remove(store);
  return 1e6 * seconds;
}

}  // namespace

std::vector<Row> call_rows() { return {{"call.blocking.function", "us", blocking_function}}; }

}  // namespace gradwire::bench
