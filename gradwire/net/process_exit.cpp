#include "gradwire/net/process_exit.h"

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include <c10/util/Logging.h>

#include "gradwire/base/mutex.h"
#include "gradwire/net/fork.h"
#include "gradwire/net/threads.h"

namespace gradwire::net {
namespace {

constexpr auto exit_limit = std::chrono::seconds(2);

struct Action {
  std::weak_ptr<void> owner;
  std::function<void()> run;
};

struct Ending {
  Mutex mutex;
  Condition thread_ended;
  int threads GRADWIRE_GUARDED_BY(mutex) = 0;
  std::vector<Action> actions GRADWIRE_GUARDED_BY(mutex);
};

// Never destroyed: threads use it until the very end.
Ending& ending() {
  static auto* const state = new Ending;
  return *state;
}

// Whether the calling thread is counted.
bool& counted() {
  thread_local bool here = false;
  return here;
}

void at_exit(int status, void* /*unused*/) {
  if (forked_child()) return;
  std::vector<Action> actions;
  {
    MutexLock lock(ending().mutex);
    actions.swap(ending().actions);
  }
  for (auto action = actions.rbegin(); action != actions.rend(); ++action)
    if (const std::shared_ptr<void> owner = action->owner.lock()) action->run();
  const auto deadline = std::chrono::steady_clock::now() + exit_limit;
  const int own = counted() ? 1 : 0;  // a function may call exit
  MutexLock lock(ending().mutex);
  while (ending().threads > own && std::chrono::steady_clock::now() < deadline)
    lock.wait_until(ending().thread_ended, deadline);
  if (ending().threads <= own) return;
  LOG(WARNING) << "gradwire: the process exits while functions of its workers still run, and waits for them no longer. "
                  "leave() before the end of main waits until they have returned";
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

struct Presence {
  Presence() {
    counted() = true;
    MutexLock lock(ending().mutex);
    ++ending().threads;
  }
  ~Presence() {
    if (Threads::here()) come_first();  // it did not end: its function called exit
    counted() = false;
    MutexLock lock(ending().mutex);
    --ending().threads;
    ending().thread_ended.notify_all();
  }
};

}  // namespace

void before_exit(const std::weak_ptr<void>& owner, std::function<void()> action) {
  static const int registered = ::on_exit(at_exit, nullptr);
  (void)registered;
  if (gettid() == getpid()) {
    thread_local const AtExitOfMain when_main_returns;
  }
  MutexLock lock(ending().mutex);
  std::erase_if(ending().actions, [](const Action& known) { return known.owner.expired(); });
  ending().actions.push_back({owner, std::move(action)});
}

void wait_for_this_thread_at_exit() { thread_local const Presence presence; }

}  // namespace gradwire::net
