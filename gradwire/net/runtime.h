// What the workers of one process share: the event loop with its thread, the poller of its sockets, and the bound on
// segment memory. A thousand workers in a process do not mean a thousand loops.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "gradwire/net/loop.h"
#include "gradwire/net/poller.h"

namespace asio {
class io_context;
}

namespace gradwire::net {

// Any thread may use it. The last owner's release stops the loop; tasks that have not run by then are dropped.
class Runtime : public Loop, public std::enable_shared_from_this<Runtime> {
 public:
  // The one of this process: made for the first worker, gone with the last.
  static std::shared_ptr<Runtime> of_process();

  Runtime();
  ~Runtime() override;

  Time now() const override { return std::chrono::steady_clock::now(); }
  void post(Task task) override;
  void after(Duration delay, Task task) override;

  Poller& poller();
  asio::io_context& context();
  bool on_loop_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  // Lives until the thread has left it, which may be after this object is gone: see the destructor.
  struct Core;
  const std::shared_ptr<Core> core_;
  std::thread thread_;
};

}  // namespace gradwire::net
