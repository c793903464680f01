// A mutex that clang's thread-safety analysis understands: members say GRADWIRE_GUARDED_BY(mutex_), and code that
// touches them without the lock does not pass lint. With other compilers the annotations vanish.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define GRADWIRE_ANNOTATION(x) __attribute__((x))
#else
#define GRADWIRE_ANNOTATION(x)
#endif
#define GRADWIRE_GUARDED_BY(x) GRADWIRE_ANNOTATION(guarded_by(x))
#define GRADWIRE_REQUIRES(...) GRADWIRE_ANNOTATION(requires_capability(__VA_ARGS__))
#define GRADWIRE_EXCLUDES(...) GRADWIRE_ANNOTATION(locks_excluded(__VA_ARGS__))
#define GRADWIRE_NO_ANALYSIS GRADWIRE_ANNOTATION(no_thread_safety_analysis)

namespace gradwire {

class GRADWIRE_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() GRADWIRE_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() GRADWIRE_ANNOTATION(release_capability()) { mutex_.unlock(); }
  bool try_lock() GRADWIRE_ANNOTATION(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

// What MutexLock waits for.
using Condition = std::condition_variable_any;

class GRADWIRE_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) GRADWIRE_ANNOTATION(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() GRADWIRE_ANNOTATION(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  // Gives the mutex up while it waits. It may wake for nothing: call it in a loop that looks at the condition.
  void wait(Condition& condition) GRADWIRE_NO_ANALYSIS { condition.wait(mutex_); }
  template <class Time>
  void wait_until(Condition& condition, const Time& deadline) GRADWIRE_NO_ANALYSIS {
    condition.wait_until(mutex_, deadline);
  }
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace gradwire
