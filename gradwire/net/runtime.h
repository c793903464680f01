// What the workers of one process share: the event loop, the poller of its sockets, and the threads that run it and the
// functions. A thousand workers in a process do not mean a thousand loops.
#pragma once

#include <memory>

#include "gradwire/net/arrival_budget.h"
#include "gradwire/net/loop.h"
#include "gradwire/net/poller.h"
#include "gradwire/net/repeated_log.h"
#include "gradwire/net/segment.h"
#include "gradwire/net/threads.h"
#include "gradwire/net/waker.h"

namespace asio {
class io_context;
}

namespace gradwire::net {

// Any thread may use it. The last owner's release stops the loop; tasks that have not run by then are dropped. Making
// one raises the process's soft limit on descriptors (descriptor_limit.h). Throws OverloadedError if the process has no
// descriptors left.
class Runtime : public Loop, public std::enable_shared_from_this<Runtime> {
 public:
  // The one of this process: made for the first worker, gone with the last.
  static std::shared_ptr<Runtime> of_process();
  // Throws InvalidArgumentError where its threads are not there: in a process that was forked from one with a runtime,
  // and in one that exits.
  static void require_threads();

  Runtime();
  ~Runtime() override;

  Time now() const override { return std::chrono::steady_clock::now(); }
  // On the loop: brief, one at a time.
  void post(Task task) override;
  void after(Duration delay, Task task) override;
  // How many delays are not over: for tests, because a task that is put off again and again must not pile up.
  size_t delays_outstanding() const;
  // Anywhere: may block, several at a time.
  void submit(Task task) { threads_->submit(std::move(task)); }

  Poller& poller();
  asio::io_context& context();
  Threads& threads() { return *threads_; }
  WakerPool& wakers() { return wakers_; }
  RepeatedLog& repeated_log() { return *repeated_log_; }
  // For all workers of the process together.
  const std::shared_ptr<SegmentBudget>& segment_budget() const { return segment_budget_; }
  const std::shared_ptr<ArrivalBudget>& arrival_budget() const { return arrival_budget_; }

 private:
  // Lives until the last thread has left it, which may be after this object is gone.
  struct Core;
  const std::shared_ptr<Core> core_;
  const std::shared_ptr<Threads> threads_;
  WakerPool wakers_;
  const std::shared_ptr<RepeatedLog> repeated_log_ = RepeatedLog::make();
  const std::shared_ptr<SegmentBudget> segment_budget_;
  const std::shared_ptr<ArrivalBudget> arrival_budget_ = ArrivalBudget::of_process();
};

}  // namespace gradwire::net
