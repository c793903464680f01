#include "gradwire/net/runtime.h"

#include <pthread.h>
#include <signal.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "gradwire/base/mutex.h"
#include "gradwire/base/torch_compatibility.h"

namespace gradwire::net {

struct Runtime::Core {
  Core() : descriptor(context, dup(poller.descriptor())), work(context.get_executor()) { arm(); }
  // Keeps the poller's epoll set watched by the event loop.
  void arm() {
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
      if (error) return;
      poller.dispatch();
      arm();
    });
  }
  Poller poller;
  asio::io_context context{1};
  asio::posix::stream_descriptor descriptor;
  asio::executor_work_guard<asio::io_context::executor_type> work;
};

std::shared_ptr<Runtime> Runtime::of_process() {
  static Mutex mutex;
  static std::weak_ptr<Runtime> current;
  MutexLock lock(mutex);
  std::shared_ptr<Runtime> runtime = current.lock();
  if (!runtime) {
    runtime = std::make_shared<Runtime>();
    current = runtime;
  }
  return runtime;
}

Runtime::Runtime() : core_(std::make_shared<Core>()) {
  require_same_torch(torch_version_at_build(), torch_version_loaded());
  // Signals are the program's own business: its threads get them, not the loop.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([core = core_] { core->context.run(); });
  pthread_setname_np(thread_.native_handle(), "gradwire-loop");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Runtime::~Runtime() {
  core_->context.stop();
  // A task on the loop may have been the last owner: the thread then outlives this object, and takes the core along.
  if (on_loop_thread())
    thread_.detach();
  else
    thread_.join();
}

Poller& Runtime::poller() { return core_->poller; }

asio::io_context& Runtime::context() { return core_->context; }

void Runtime::post(Task task) { asio::post(core_->context, std::move(task)); }

void Runtime::after(Duration delay, Task task) {
  auto timer = std::make_shared<asio::steady_timer>(core_->context, delay);
  timer->async_wait([timer, task = std::move(task)](const asio::error_code& error) {
    if (!error) task();
  });
}

}  // namespace gradwire::net
