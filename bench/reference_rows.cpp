// Rows of the rref layer: references between two processes.
#include "gradwire/gradwire.h"

#include "processes.h"
#include "row.h"

namespace gradwire::bench {
namespace {

constexpr Function<at::Tensor(at::Tensor, at::Tensor)> add{"add"};
constexpr Function<void(RRef<at::Tensor>, int64_t)> hop{"hop"};

Registry make_registry() {
  Registry registry;
  registry.add(add, [](const at::Tensor& a, const at::Tensor& b) { return a.add(b); });
  registry.add(hop, [](const RRef<at::Tensor>& reference, int64_t left) {
    if (left > 0) Worker::current().peer(1 - Worker::current().rank()).call(hop, reference, left - 1).get();
  });
  return registry;
}

using Pair = PairOfProcesses<make_registry>;

double create_fetch() {
  const Pair pair;
  return 1e6 * median_seconds(5000, [&] { pair.peer.remote(add, pair.small, pair.small).to_here(); });
}

void create_and_drop(const Pair& pair, int count) {
  std::vector<RRef<at::Tensor>> references;
  references.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) references.push_back(pair.peer.remote(add, pair.small, pair.small));
  references.back().to_here();
}

double create_drop_rate() {
  const Pair pair;
  constexpr int batch = 1000;
  return batch / median_seconds(50, [&] { create_and_drop(pair, batch); });
}

// A reference handed on fifty times, in calls inside calls.
double fork_chain() {
  const Pair pair;
  return 1e6 * median_seconds(300, [&] { pair.peer.call(hop, pair.worker->share(pair.small), 49).get(); });
}

// A million made and dropped, after what the processes need to begin with.
double memory() {
  const Pair pair;
  for (int i = 0; i < 1000; ++i) create_and_drop(pair, 1000);
  const double before = pair.resident_bytes();
  for (int i = 0; i < 1000; ++i) create_and_drop(pair, 1000);
  return 100 * (pair.resident_bytes() - before) / before;
}

}  // namespace

std::vector<Row> reference_rows() {
  return {{"reference.create_fetch", "us", create_fetch},
          {"reference.create_drop.rate", "per_second", create_drop_rate},
          {"reference.fork_chain.50", "us", fork_chain},
          {"reference.memory", "percent", memory}};
}

}  // namespace gradwire::bench
