// Questions to a c10d store, which may wait for an answer without a limit: a server that is stopped, or a file that
// somebody has locked, would hold the caller for ever. So they are asked on a thread of their own, one after another,
// and the caller waits as long as it likes.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "gradwire/base/mutex.h"

namespace gradwire::net {

// Any thread. The thread that asks begins with the first question, and ends when nothing was asked for a second. If it
// still waits for an answer when this object ends, it is left to itself.
class Questions {
 public:
  using Time = std::chrono::steady_clock::time_point;
  Questions() = default;
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;
  ~Questions();

  // What `act` gives or throws; nothing if it has not ended by the deadline. `act` owns what it uses: it may outlive
  // this call. If it had not begun by the deadline, it never does. Throws std::system_error if no thread can be had.
  template <class Act>
  auto ask(Time deadline, Act act) {
    using Result = std::invoke_result_t<Act>;
    auto task = std::make_shared<std::packaged_task<Result()>>(std::move(act));
    std::future<Result> answer = task->get_future();
    const auto number = begin([task] { (*task)(); });
    if (answer.wait_until(deadline) == std::future_status::ready) return std::optional<Result>(answer.get());
    give_up(number);
    return std::optional<Result>();
  }

 private:
  struct Queue {
    Mutex mutex;
    Condition changed;
    std::deque<std::pair<uint64_t, std::function<void()>>> waiting GRADWIRE_GUARDED_BY(mutex);
    // Questions are numbered from 1.
    uint64_t last GRADWIRE_GUARDED_BY(mutex) = 0;
    uint64_t asked_now GRADWIRE_GUARDED_BY(mutex) = 0;
    uint64_t given_up GRADWIRE_GUARDED_BY(mutex) = 0;  // the last one that had begun when its asker went
    bool has_thread GRADWIRE_GUARDED_BY(mutex) = false;
    bool stopped GRADWIRE_GUARDED_BY(mutex) = false;
  };
  static void work(Queue& queue) GRADWIRE_EXCLUDES(queue.mutex);

  uint64_t begin(std::function<void()> task);
  void give_up(uint64_t number);

  // The thread has it too.
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::thread thread_ GRADWIRE_GUARDED_BY(queue_->mutex);
};

}  // namespace gradwire::net
