// The threads of a process. One of them, the leader, runs the event loop, and between its turns the functions that
// arrived: without a hand-over, which would cost more than everything else in a call. A function may block or take
// long all the same:
//   - a function that waits in Gradwire says so (Blocked), and the leadership passes on at once;
//   - the standby thread looks at the leader every so often while functions run, and takes the leadership from
//     one whose function sleeps or takes long, so that a function that blocks on anything delays the others by
//     less than a millisecond.
// A thread that lost the leadership goes on with its function, and then waits to be needed again.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <thread>

#include "gradwire/base/mutex.h"

namespace gradwire::net {

// Any thread may use it.
class Threads : public std::enable_shared_from_this<Threads> {
 public:
  using Task = std::function<void()>;
  // What the leader does between functions: runs what is ready of the event loop; waits for something if it may.
  struct Turns {
    std::function<void(bool may_wait)> take;
    std::function<void()> interrupt;  // ends a wait; any thread
  };

  explicit Threads(Turns turns) : turns_(std::move(turns)) {}
  void start() GRADWIRE_EXCLUDES(mutex_);
  // Ends all threads and waits for them, but for the calling one and those inside a function, which end when it
  // returns. Tasks that have not begun are dropped. At the latest when the process exits.
  void stop() GRADWIRE_EXCLUDES(mutex_);

  // Runs the task on one of these threads, soon, in the order of submission. It may block. What it throws is logged.
  void submit(Task task) GRADWIRE_EXCLUDES(mutex_);

  // Whether the calling thread is one of these, of any Threads.
  static bool here();

  // While it lives, the calling thread waits: if it is one of these, another takes its place.
  class Blocked {
   public:
    Blocked();
    ~Blocked();
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;
  };

  size_t count() GRADWIRE_EXCLUDES(mutex_);

 private:
  struct Thread {
    std::thread handle;
    Threads* threads = nullptr;
    bool in_function = false;
    int blocked = 0;
    int id = 0;  // the kernel's
    std::chrono::steady_clock::time_point function_began;
  };
  struct Waiting {
    Task task;
    uint64_t submitted = 0;  // in ticks
  };
  friend class Blocked;
  static Thread*& current();

  void spawn() GRADWIRE_REQUIRES(mutex_);
  void join_ended() GRADWIRE_REQUIRES(mutex_);
  void work(std::list<Thread>::iterator me) GRADWIRE_EXCLUDES(mutex_);
  void lead(Thread& me) GRADWIRE_REQUIRES(mutex_);
  void stand_by(Thread& me) GRADWIRE_REQUIRES(mutex_);
  void run_one(Thread& me) GRADWIRE_REQUIRES(mutex_);
  // Sees to it that someone stands by.
  void call_standby() GRADWIRE_REQUIRES(mutex_);
  bool overdue() const GRADWIRE_REQUIRES(mutex_) { return !tasks_.empty() && tasks_.front().submitted + 2 <= ticks_; }

  const Turns turns_;

  Mutex mutex_;
  bool stopping_ GRADWIRE_GUARDED_BY(mutex_) = false;
  std::list<Thread> threads_ GRADWIRE_GUARDED_BY(mutex_);
  std::list<Thread> ended_ GRADWIRE_GUARDED_BY(mutex_);  // to be joined
  std::deque<Waiting> tasks_ GRADWIRE_GUARDED_BY(mutex_);
  Thread* leader_ GRADWIRE_GUARDED_BY(mutex_) = nullptr;
  bool leader_in_turn_ GRADWIRE_GUARDED_BY(mutex_) = false;
  bool interrupted_ GRADWIRE_GUARDED_BY(mutex_) = false;
  Thread* standby_ GRADWIRE_GUARDED_BY(mutex_) = nullptr;
  bool standby_asleep_ GRADWIRE_GUARDED_BY(mutex_) = false;
  uint64_t ticks_ GRADWIRE_GUARDED_BY(mutex_) = 0;
  uint64_t completed_ GRADWIRE_GUARDED_BY(mutex_) = 0;
  bool help_wanted_ GRADWIRE_GUARDED_BY(mutex_) = false;  // by the leader: functions wait that take their time
  size_t parked_ GRADWIRE_GUARDED_BY(mutex_) = 0;
  // On their way to be at work: threads that were spawned, and parked ones that were woken.
  size_t spawned_ GRADWIRE_GUARDED_BY(mutex_) = 0;
  size_t woken_ GRADWIRE_GUARDED_BY(mutex_) = 0;
  Condition standby_wakes_;
  Condition parked_wakes_;
};

}  // namespace gradwire::net
