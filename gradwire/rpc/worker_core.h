// The parts of a worker. Functions that run hold it, so that what they use stays after the Worker is gone.
#pragma once

#include <atomic>
#include <memory>

#include "gradwire/rpc/calls.h"
#include "gradwire/rpc/leaving.h"
#include "gradwire/rpc/membership.h"
#include "gradwire/rpc/worker.h"

namespace gradwire {

// Any thread.
class WorkerCore : public std::enable_shared_from_this<WorkerCore> {
 public:
  static std::shared_ptr<WorkerCore> join(const Registry& registry, WorkerOptions options);
  ~WorkerCore() = default;

  void leave(std::chrono::milliseconds timeout);
  // Goodbye, at once. Again does nothing.
  void close();
  // Without a word: by tests, as a process that is killed, and where a process exits. `how` is for its own calls.
  void abandon(const std::string& how);

  const WorkerOptions& options() const { return options_; }
  const net::Record& record() const { return endpoint_->record(); }
  const std::shared_ptr<net::Runtime>& runtime() const { return runtime_; }
  const std::shared_ptr<net::Endpoint>& endpoint() const { return endpoint_; }
  Calls& calls() { return *calls_; }
  const Exchange& exchange() const { return *exchange_; }
  Membership& membership() { return *membership_; }
  // Null in a growing group.
  Leaving* leaving() { return leaving_.get(); }
  // What Worker::current() gives.
  Worker& view() { return *view_; }

 private:
  WorkerCore() = default;
  void wait_until_idle(std::chrono::steady_clock::time_point deadline);

  // Constant once joined.
  WorkerOptions options_;
  std::shared_ptr<net::Runtime> runtime_;
  std::shared_ptr<Exchange> exchange_;
  std::vector<std::shared_ptr<Passenger>> passengers_;
  std::shared_ptr<Calls> calls_;
  std::shared_ptr<Membership> membership_;
  std::shared_ptr<Leaving> leaving_;  // of a fixed group
  std::shared_ptr<net::Endpoint> endpoint_;
  std::unique_ptr<Worker> view_;

  std::atomic<bool> closed_ = false;
};

// For the layers above and for tests.
class WorkerAccess {
 public:
  static WorkerCore& core(Worker& worker) { return *worker.core_; }
};

}  // namespace gradwire
