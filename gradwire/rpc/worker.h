// A worker: a member of a group, that calls functions of others and serves those registered here.
//
//   auto worker = gradwire::Worker::join(registry);          // RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   worker->peer("worker1").call(scale, x, 2.0).get();
//   worker->leave();
#pragma once

#include <memory>
#include <string>

#include "gradwire/rpc/future.h"
#include "gradwire/rpc/registry.h"
#include "gradwire/rpc/worker_options.h"

namespace gradwire {

// Another worker, to be called. Copyable; any thread.
class Peer {
 public:
  template <class Result, class... Arguments, class... Given>
  [[nodiscard]] Future<Result> call(const Function<Result(Arguments...)>& function, Given&&... given) const {
    static_assert(sizeof...(Arguments) == sizeof...(Given), "wrong number of arguments for this function");
    return Future<Result>(
        start(function.name(), wire::encode(static_cast<std::decay_t<Arguments>>(std::forward<Given>(given))...)));
  }

 private:
  friend class Worker;
  Peer(std::shared_ptr<class Calls> calls, net::Record record) : calls_(std::move(calls)), record_(std::move(record)) {}
  std::shared_ptr<CallState> start(std::string_view function, wire::Payload arguments) const;

  std::shared_ptr<class Calls> calls_;
  net::Record record_;
};

// Any thread may use it.
class Worker {
 public:
  // Returns when all members are there. The registry is copied: it cannot change afterwards.
  static std::unique_ptr<Worker> join(const Registry& registry,
                                      WorkerOptions options = WorkerOptions::from_environment());
  ~Worker();

  int rank() const;
  const std::string& name() const;
  Peer peer(const std::string& name);
  Peer peer(int rank);
  // Serves until every member has called it.
  void leave();

 private:
  struct Parts;
  explicit Worker(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace gradwire
