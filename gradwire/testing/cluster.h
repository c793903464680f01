// A cluster in one process, for tests: real workers on a memory network that can be made to misbehave.
//
//   gradwire::testing::Cluster cluster(4, registry);
//   gradwire::Worker& a = cluster[0];
//   cluster.network().cut("worker0", "worker1");     // heal, break_links, truncate, replay, set_delay
//   cluster.kill("worker2");
//   cluster.restart("worker2");
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gradwire/net/memory_network.h"
#include "gradwire/rpc/worker.h"

namespace gradwire::testing {

// One thread; the workers may be used by any.
class Cluster {
 public:
  // A fixed group of `size` workers, named worker0, worker1... The options' name, rank and store are the cluster's own;
  // the rest is used for each worker.
  Cluster(int size, const Registry& registry, const WorkerOptions& options = {});
  // A growing group, empty at first: see `add`.
  explicit Cluster(const Registry& registry, const WorkerOptions& options = {});
  // The workers that are left say goodbye.
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // By rank, by name. Throws NotFoundError for one that is not there any more.
  Worker& operator[](int rank);
  Worker& operator[](const std::string& name);
  // Another worker, with this name (or worker<rank>) and this registry (or the cluster's).
  Worker& add(const std::string& name = "");
  Worker& add(const std::string& name, const Registry& registry);

  // Ends it without a word, as if its process had been killed. Functions that run go on, as no process could, but no
  // one hears of them.
  void kill(const std::string& name);
  // Takes the worker out, to be left or destroyed by the test.
  std::unique_ptr<Worker> take(const std::string& name);
  // Joins again under the name of one that is gone, as a new incarnation.
  Worker& restart(const std::string& name);
  // All at once, as a group must.
  void leave();

  net::MemoryNetwork& network() { return *network_; }

 private:
  std::unique_ptr<Worker>& slot(const std::string& name);
  WorkerOptions options_for(const std::string& name, std::optional<int> rank) const;

  const std::shared_ptr<net::Runtime> runtime_;
  const std::shared_ptr<net::MemoryNetwork> network_;
  const Registry registry_;
  WorkerOptions options_;
  std::vector<std::pair<std::string, std::unique_ptr<Worker>>> workers_;
  std::vector<std::unique_ptr<Worker>> killed_;
};

}  // namespace gradwire::testing
