#include "gradwire/testing/cluster.h"

#include <exception>
#include <thread>

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "gradwire/net/runtime.h"
#include "gradwire/rpc/worker_core.h"

namespace gradwire::testing {
namespace {

// Runs something for each, at once; the first error is thrown when all are over.
template <class Items, class Act>
void at_once(Items& items, const Act& act) {
  std::vector<std::exception_ptr> errors(items.size());
  std::vector<std::thread> threads;
  threads.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        act(items[i], i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace

Cluster::Cluster(const Registry& registry, const WorkerOptions& options)
    : runtime_(net::Runtime::of_process()),
      network_(std::make_shared<net::MemoryNetwork>(runtime_)),
      registry_(registry),
      options_(options) {
  options_.store = c10::make_intrusive<c10d::HashStore>();
  options_.world_size.reset();
}

Cluster::Cluster(int size, const Registry& registry, const WorkerOptions& options) : Cluster(registry, options) {
  options_.world_size = size;
  workers_.resize(static_cast<size_t>(size));
  at_once(workers_, [this](auto& place, size_t rank) {
    place.first = fmt::format("worker{}", rank);
    place.second = Worker::join(registry_, options_for(place.first, static_cast<int>(rank)));
  });
}

Cluster::~Cluster() {
  for (auto& [name, worker] : workers_) worker.reset();
}

WorkerOptions Cluster::options_for(const std::string& name, std::optional<int> rank) const {
  WorkerOptions options = options_;
  options.name = name;
  options.rank = rank;
  options.transport = network_->transport();
  return options;
}

std::unique_ptr<Worker>& Cluster::slot(const std::string& name) {
  for (auto& [known, worker] : workers_)
    if (known == name) return worker;
  throw NotFoundError(fmt::format("the cluster never had a worker {}", name));
}

Worker& Cluster::operator[](const std::string& name) {
  std::unique_ptr<Worker>& worker = slot(name);
  if (!worker) throw NotFoundError(fmt::format("{} is not in the cluster any more: it was killed or taken out", name));
  return *worker;
}

Worker& Cluster::operator[](int rank) {
  for (auto& [name, worker] : workers_)
    if (worker && worker->rank() == rank) return *worker;
  throw NotFoundError(fmt::format("no worker of rank {} is in the cluster", rank));
}

Worker& Cluster::add(const std::string& name) { return add(name, registry_); }

Worker& Cluster::add(const std::string& name, const Registry& registry) {
  std::unique_ptr<Worker> worker = Worker::join(registry, options_for(name, {}));
  return *workers_.emplace_back(worker->name(), std::move(worker)).second;
}

void Cluster::kill(const std::string& name) {
  Worker& worker = (*this)[name];
  WorkerAccess::core(worker).abandon("was killed");
  killed_.push_back(take(name));
}

std::unique_ptr<Worker> Cluster::take(const std::string& name) {
  (*this)[name];
  return std::move(slot(name));
}

Worker& Cluster::restart(const std::string& name) {
  std::unique_ptr<Worker>& worker = slot(name);
  if (worker) throw InvalidArgumentError(fmt::format("{} is still there: kill it first", name));
  std::optional<int> rank;
  if (options_.world_size)
    for (size_t i = 0; i < workers_.size(); ++i)
      if (workers_[i].first == name) rank = static_cast<int>(i);
  worker = Worker::join(registry_, options_for(name, rank));
  return *worker;
}

void Cluster::leave() {
  at_once(workers_, [](auto& place, size_t) {
    if (place.second) place.second->leave();
  });
}

}  // namespace gradwire::testing
