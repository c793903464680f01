#include "gradwire/net/process_exit.h"

#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <vector>

#include <c10/util/Logging.h>

#include "gradwire/base/mutex.h"
#include "gradwire/net/fork.h"
#include "gradwire/net/threads.h"

namespace gradwire::net {
namespace {

constexpr auto exit_limit = std::chrono::seconds(2);

std::atomic<pid_t> exiting_thread = 0;

struct Ending {
  Mutex mutex;
  Condition thread_ended;
  int threads GRADWIRE_GUARDED_BY(mutex) = 0;
  std::vector<std::weak_ptr<Threads>> to_stop GRADWIRE_GUARDED_BY(mutex);
};

// Never destroyed: threads use it until the very end.
Ending& ending() {
  static auto* const state = new Ending;
  return *state;
}

void at_exit(int status, void* /*unused*/) {
  if (forked_child()) return;
  pid_t first = 0;
  if (!exiting_thread.compare_exchange_strong(first, gettid()) && first != gettid())
    for (;;) pause();  // another thread has begun to end the process: its status counts
  std::vector<std::weak_ptr<Threads>> to_stop;
  {
    MutexLock lock(ending().mutex);
    to_stop.swap(ending().to_stop);
  }
  for (const std::weak_ptr<Threads>& weak : to_stop)
    if (const std::shared_ptr<Threads> threads = weak.lock()) threads->stop();
  const auto deadline = std::chrono::steady_clock::now() + exit_limit;
  MutexLock lock(ending().mutex);
  while (ending().threads > 0 && std::chrono::steady_clock::now() < deadline)
    lock.wait_until(ending().thread_ended, deadline);
  if (ending().threads == 0) return;
  LOG(WARNING) << "gradwire: the process exits while functions of its workers still run, and waits for them no longer. "
                  "leave() before the end of main waits until they have returned";
  std::cout.flush();
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(status);
}

// Handlers run in the reverse order of their registration, among them those that take down what torch made when it
// was first needed: ours has to be registered after all of them. A thread that calls exit destroys what is its own
// before the first handler runs: that is the time.
void come_first() { ::on_exit(at_exit, nullptr); }

struct AtExitOfMain {
  ~AtExitOfMain() { come_first(); }
};
// By the thread that loads the program.
const bool main_is_watched = [] {
  thread_local const AtExitOfMain when_main_returns;
  return true;
}();

// A thread of the library's, until it has ended, or calls exit itself.
struct Presence {
  Presence() {
    MutexLock lock(ending().mutex);
    ++ending().threads;
  }
  ~Presence() {
    if (forked_child()) return;
    if (Threads::here()) come_first();  // it did not end: its function called exit
    MutexLock lock(ending().mutex);
    --ending().threads;
    ending().thread_ended.notify_all();
  }
};

}  // namespace

bool process_exits() { return exiting_thread.load(std::memory_order_relaxed) != 0; }

void stop_at_exit(const std::shared_ptr<Threads>& threads) {
  // For a thread that is neither main nor the library's own, and calls exit.
  static const int registered = ::on_exit(at_exit, nullptr);
  (void)registered;
  MutexLock lock(ending().mutex);
  std::erase_if(ending().to_stop, [](const std::weak_ptr<Threads>& weak) { return weak.expired(); });
  ending().to_stop.push_back(threads);
}

void wait_for_this_thread_at_exit() { thread_local const Presence presence; }

}  // namespace gradwire::net
