#include "gradwire/net/threads.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include <c10/util/Logging.h>

#include "gradwire/net/descriptor.h"
#include "gradwire/net/process_exit.h"
#include "gradwire/net/silent_thread.h"

namespace gradwire::net {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto tick = std::chrono::microseconds(250);
// How long the leader may be in one function: asleep in it, or at work. One that is at work may only have lost its
// core to another process for a while: then a change of leaders helps no one.
constexpr auto patience = std::chrono::microseconds(250);
constexpr auto patience_at_work = std::chrono::microseconds(700);
// Without functions the standby thread sleeps after this many ticks, until the next function.
constexpr int quiet_ticks = 80;
// A thread that no one needed for so long ends.
constexpr auto idle_limit = std::chrono::seconds(3);
// Fewer than this many in a tick are not small ones.
constexpr uint64_t few_functions = 12;
// After so many functions the leader looks at the event loop again.
constexpr int functions_per_turn = 16;

// Whether the kernel says that the thread runs or would if it had a core.
bool at_work(int thread) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  char text[256];
  const ssize_t size = file ? ::read(file.get(), text, sizeof text - 1) : 0;
  if (size <= 0) return false;
  text[size] = 0;
  const char* after_name = std::strrchr(text, ')');
  return after_name != nullptr && after_name[1] == ' ' && after_name[2] == 'R';
}

// No exception crosses the edge of a thread: it would end the process.
template <class Act>
void contain(const char* what, const Act& act) {
  try {
    act();
  } catch (const std::exception& error) {
    LOG(ERROR) << "gradwire: " << what << " threw, and was given up: " << error.what();
  } catch (...) {
    LOG(ERROR) << "gradwire: " << what << " threw something that is not a std::exception, and was given up";
  }
}

}  // namespace

// Which of the threads this is: with the surroundings, the only thread-local state.
Threads::Thread*& Threads::current() {
  thread_local Thread* thread = nullptr;
  return thread;
}

bool Threads::here() { return current() != nullptr; }

Threads::Blocked::Blocked() {
  Thread* me = current();
  if (me == nullptr) return;
  Threads& threads = *me->threads;
  MutexLock lock(threads.mutex_);
  if (me->blocked++ > 0 || threads.leader_ != me) return;
  threads.leader_ = nullptr;
  threads.call_standby();
}

Threads::Blocked::~Blocked() {
  Thread* me = current();
  if (me == nullptr) return;
  MutexLock lock(me->threads->mutex_);
  --me->blocked;
}

void Threads::start() {
  stop_at_exit(shared_from_this());
  MutexLock lock(mutex_);
  spawn();
}

size_t Threads::count() {
  MutexLock lock(mutex_);
  return threads_.size();
}

// Only those that the kernel no longer has: a thread that has left its work may still destroy what is its own, by code
// of users, which takes its time and may come back here.
void Threads::join_ended() {
  std::erase_if(ended_, [](Thread& thread) {
    if (::tgkill(::getpid(), thread.id, 0) == 0 || errno != ESRCH) return false;
    thread.handle.join();
    return true;
  });
}

void Threads::spawn() {
  join_ended();
  auto me = threads_.emplace(threads_.begin());
  me->threads = this;
  ++spawned_;
  try {
    me->handle = start_silent_thread([self = shared_from_this(), me] { self->work(me); });
    pthread_setname_np(me->handle.native_handle(), "gradwire");
  } catch (const std::system_error& error) {
    --spawned_;
    threads_.erase(me);
    LOG(ERROR) << "gradwire: cannot start another thread (" << error.what()
               << "): functions that block hold up others. Raise the limit on processes (ulimit -u)";
  }
}

void Threads::call_standby() {
  if (stopping_) return;
  if (standby_ != nullptr) {
    standby_wakes_.notify_one();
  } else if (spawned_ + woken_ > 0) {
    // They find out what is missing.
  } else if (parked_ > 0) {
    --parked_;
    ++woken_;
    parked_wakes_.notify_one();
  } else {
    spawn();
  }
}

void Threads::work(std::list<Thread>::iterator me) {
  wait_for_this_thread_at_exit();
  current() = &*me;
  me->id = gettid();
  MutexLock lock(mutex_);
  --spawned_;
  while (!stopping_) {
    if (leader_ == nullptr) {
      lead(*me);
    } else if (help_wanted_) {
      help_wanted_ = false;
      if (standby_ == nullptr) call_standby();
      while (!stopping_ && leader_ != nullptr && !tasks_.empty()) run_one(*me);
    } else if (standby_ == nullptr) {
      stand_by(*me);
    } else {
      const auto until = Clock::now() + idle_limit;
      ++parked_;
      lock.wait_until(parked_wakes_, until);
      if (woken_ > 0) {
        --woken_;  // and whoever woke it has taken it off the parked ones
      } else {
        --parked_;
        if (parked_ > 0 && Clock::now() >= until) break;
      }
    }
  }
  current() = nullptr;
  ended_.splice(ended_.begin(), threads_, me);
  parked_wakes_.notify_all();
}

void Threads::lead(Thread& me) {
  leader_ = &me;
  if (standby_ == nullptr) call_standby();
  while (!stopping_ && leader_ == &me) {
    leader_in_turn_ = true;
    const bool may_wait = tasks_.empty();
    mutex_.unlock();
    contain("a turn of the event loop", [&] { turns_.take(may_wait); });
    mutex_.lock();
    leader_in_turn_ = false;
    interrupted_ = false;
    for (int i = 0; i < functions_per_turn && !stopping_ && leader_ == &me && !tasks_.empty(); ++i) run_one(me);
  }
  if (leader_ == &me) leader_ = nullptr;
}

void Threads::run_one(Thread& me) {
  Task task = std::move(tasks_.front().task);
  tasks_.pop_front();
  me.in_function = true;
  me.function_began = Clock::now();
  if (standby_asleep_) {
    standby_asleep_ = false;
    standby_wakes_.notify_one();
  }
  mutex_.unlock();
  contain("a task", task);
  task = nullptr;  // what it holds may need the lock
  mutex_.lock();
  me.in_function = false;
  ++completed_;
}

void Threads::stand_by(Thread& me) {
  standby_ = &me;
  int quiet = 0;
  uint64_t completed_before = completed_;
  while (!stopping_ && leader_ != nullptr) {
    ++ticks_;
    const bool function = leader_->in_function;
    const auto elapsed = function ? Clock::now() - leader_->function_began : Clock::duration(0);
    if (elapsed >= patience_at_work || (elapsed >= patience && !at_work(leader_->id))) {
      leader_ = nullptr;  // it goes on with its function
      break;
    }
    // Many small functions are run fastest by one thread: more would only pass memory and locks around.
    if (overdue() && completed_ - completed_before < few_functions) {
      help_wanted_ = true;
      break;
    }
    completed_before = completed_;
    quiet = function || !tasks_.empty() ? 0 : quiet + 1;
    if (quiet < quiet_ticks) {
      standby_wakes_.wait_until(mutex_, Clock::now() + tick);
    } else {
      standby_asleep_ = true;
      while (standby_asleep_ && !stopping_ && leader_ != nullptr) standby_wakes_.wait(mutex_);
      standby_asleep_ = false;
      quiet = 0;
    }
  }
  standby_ = nullptr;
}

void Threads::submit(Task task) {
  bool interrupt = false;
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    tasks_.push_back({std::move(task), ticks_});
    // The leader runs it after its turn, which has to end for that if it may be waiting.
    if (leader_in_turn_ && leader_ != current() && !interrupted_) interrupt = interrupted_ = true;
  }
  if (interrupt) turns_.interrupt();
}

void Threads::stop() {
  std::list<Thread> joined;
  std::deque<Waiting> dropped;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
    standby_wakes_.notify_all();
    parked_wakes_.notify_all();
    turns_.interrupt();
    const auto outstanding = [this]() GRADWIRE_REQUIRES(mutex_) {
      for (const Thread& thread : threads_)
        if (!thread.in_function && &thread != current()) return true;
      return false;
    };
    while (outstanding()) lock.wait(parked_wakes_);
    joined.swap(ended_);
    for (Thread& thread : threads_)
      if (thread.handle.joinable()) thread.handle.detach();
  }
  for (Thread& thread : joined) {
    if (thread.handle.get_id() == std::this_thread::get_id())
      thread.handle.detach();  // what it owned has stopped us
    else if (thread.handle.joinable())
      thread.handle.join();
  }
}

}  // namespace gradwire::net
