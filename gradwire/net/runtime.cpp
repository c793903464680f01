#include "gradwire/net/runtime.h"

#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <c10/util/Logging.h>

#include "gradwire/base/error.h"
#include "gradwire/base/mutex.h"
#include "gradwire/base/torch_compatibility.h"
#include "gradwire/net/descriptor_limit.h"
#include "gradwire/net/fork.h"
#include "gradwire/net/held_folder.h"
#include "gradwire/net/process_exit.h"
#include "gradwire/net/spin.h"

namespace gradwire::net {
namespace {

// While it spins: what else the event loop has, timers and what threads post, can wait for a microsecond.
constexpr unsigned looks_at_sockets_alone = 4;
constexpr size_t most_segment_bytes = size_t{4} << 30U;

// Another one of the same file. Throws std::system_error if the system refuses it.
int duplicate(int descriptor) {
  const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) throw std::system_error(errno, std::generic_category(), "fcntl");
  return copy;
}

// What processes of this user that were killed left behind. None of it is needed here.
void remove_what_was_left_behind() noexcept {
  try {
    for (const std::string& place : folder_places())
      for (const FolderKind* kind : {&worker_folders(), &run_folders()}) remove_abandoned_folders(*kind, place);
  } catch (const std::exception& error) {
    LOG(WARNING) << "gradwire: folders of workers that were killed cannot be removed: " << error.what();
  }
}

}  // namespace

struct Runtime::Core {
  Core() : descriptor(context, duplicate(poller.descriptor())), work(context.get_executor()) { arm(); }
  // Keeps the poller's epoll set watched by the event loop, for a leader that sleeps.
  void arm() {
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
      if (error) return;
      poller.dispatch();
      arm();
    });
  }
  static Threads::Turns turns(const std::shared_ptr<Core>& core) {
    const auto take = [core](bool may_wait) {
      // Sockets first and directly: by way of the event loop each message would cost two more system calls.
      unsigned looks = 0;
      const auto look = [&] {
        const bool moved = core->poller.dispatch();
        const bool turn_of_the_rest = moved || looks++ % looks_at_sockets_alone == 0;
        return (turn_of_the_rest && core->context.poll_one() > 0) || moved;
      };
      if (!may_wait)
        look();
      else if (!core->spin.until(Time::max(), look))
        core->context.run_one();
    };
    return {.take = take, .interrupt = [core] { asio::post(core->context, [] {}); }};
  }

  LivesHere lives_here;
  std::atomic<size_t> delays = 0;
  // Of the thread that leads: there is one at a time, and the lead is passed on under a lock.
  Spin spin;
  Poller poller;
  asio::io_context context{1};
  asio::posix::stream_descriptor descriptor;
  asio::executor_work_guard<asio::io_context::executor_type> work;
};

std::shared_ptr<Runtime> Runtime::of_process() {
  require_threads();
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

void Runtime::require_threads() {
  if (forked_child())
    throw InvalidArgumentError(
        "this process was forked from one that had joined with Gradwire, whose threads and connections it does not "
        "have. "
        "Fork before joining, or start the child as a program of its own (exec)");
  if (process_exits())
    throw InvalidArgumentError(
        "the process exits, and Gradwire's threads have ended before it: leave the group before main returns");
}

Runtime::Runtime()
    : core_(with_descriptors([] {
        raise_descriptor_limit();
        return std::make_shared<Core>();
      })),
      threads_(std::make_shared<Threads>(Core::turns(core_))),
      segment_budget_(std::make_shared<SegmentBudget>(most_segment_bytes, shared_descriptors())) {
  require_same_torch(torch_version_at_build(), torch_version_loaded());
  threads_->start();
  remove_what_was_left_behind();
}

Runtime::~Runtime() {
  if (forked_child()) return;
  core_->context.stop();
  threads_->stop();
}

Poller& Runtime::poller() { return core_->poller; }

asio::io_context& Runtime::context() { return core_->context; }

void Runtime::post(Task task) { asio::post(core_->context, std::move(task)); }

void Runtime::after(Duration delay, Task task) {
  auto timer = std::make_shared<asio::steady_timer>(core_->context, delay);
  core_->delays.fetch_add(1, std::memory_order_relaxed);
  timer->async_wait([timer, &delays = core_->delays, task = std::move(task)](const asio::error_code& error) {
    delays.fetch_sub(1, std::memory_order_relaxed);
    if (!error) task();
  });
}

size_t Runtime::delays_outstanding() const { return core_->delays.load(std::memory_order_relaxed); }

}  // namespace gradwire::net
