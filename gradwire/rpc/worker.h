// A worker: a member of a group, that calls functions of others and serves those registered here.
//
//   auto worker = gradwire::Worker::join(registry);          // RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
//   worker->peer("worker1").call(scale, x, 2.0).get();
//   worker->leave();
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gradwire/rpc/peer.h"
#include "gradwire/rpc/peer_events.h"
#include "gradwire/rpc/worker_options.h"

namespace gradwire {

struct Metrics;
struct ReferenceReport;

// Any thread may use it. Destroying it without `leave` says goodbye at once: the others see reason `left`, and calls
// still under way here fail with CancelledError.
class Worker {
 public:
  // A fixed group's returns when all members are there. The registry is copied: it cannot change afterwards.
  static std::unique_ptr<Worker> join(const Registry& registry,
                                      WorkerOptions options = WorkerOptions::from_environment());
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The worker that runs the function, Task or continuation that calls this. Throws InvalidArgumentError elsewhere.
  static Worker& current();

  int rank() const;
  const std::string& name() const;

  // The worker of this name or rank as it is now: after a restart, the new incarnation. Throws PeerGoneError if it is
  // known to be gone and has not come back, NotFoundError, with the names there are, if it never joined.
  Peer peer(const std::string& name);
  Peer peer(int rank);
  // Waits until a worker of this name is there: one that has yet to join, or that is started again. Throws TimeoutError
  // after `timeout`, and CancelledError in a function that is cancelled.
  Peer wait_for(const std::string& name, std::chrono::milliseconds timeout);
  // This worker: a call on it is a call like any other, without a link.
  Peer self();
  // All workers that are there, as far as is known, this one included; by rank. A worker whose death any member has
  // found is not among them.
  std::vector<Peer> peers();
  // A reference to a value of this worker's own, for others to use: see rref/rref.h, where this is defined.
  template <class T>
  RRef<std::decay_t<T>> share(T&& value);
  template <class T>
  RRef<T> share(std::shared_ptr<T> value);
  // What references there are, owned and held, and who keeps them: for finding leaks. Can be printed.
  ReferenceReport debug();
  // What this worker has done so far and has under way, in numbers: see metrics.h. Can be printed.
  Metrics metrics();

  // Called on one of Gradwire's threads, in order, whenever a peer joins, leaves or is found dead by any member, from
  // now on until this worker leaves or is destroyed.
  void on_peer_event(std::function<void(const PeerEvent&)> callback);

  static constexpr auto no_timeout = std::chrono::milliseconds::max();
  // Fixed group: serves until all living members have called it and no call is under way. Growing group: until this
  // worker's calls and functions are over. Then says goodbye. Throws TimeoutError, which names those waited for;
  // the worker goes on then. Throws InvalidArgumentError in a function of this worker, which would wait for itself.
  void leave(std::chrono::milliseconds timeout = no_timeout);

 private:
  friend class WorkerCore;
  friend class WorkerAccess;
  std::shared_ptr<Reference> share_kept(Kept kept);
  Peer peer_of(std::shared_ptr<const net::Record> record);
  Worker(std::shared_ptr<WorkerCore> core, bool owns) : core_(std::move(core)), owns_(owns) {}
  const std::shared_ptr<WorkerCore> core_;
  const bool owns_;  // false: what current() gives
};

}  // namespace gradwire
