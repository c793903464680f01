#include "gradwire/net/questions.h"

#include <algorithm>

#include "gradwire/net/silent_thread.h"

namespace gradwire::net {
namespace {

constexpr auto idle_limit = std::chrono::seconds(1);

}  // namespace

Questions::~Questions() {
  std::thread thread;
  bool hangs;
  {
    MutexLock lock(queue_->mutex);
    queue_->stopped = true;
    queue_->waiting.clear();
    hangs = queue_->asked_now != 0 && queue_->asked_now == queue_->given_up;
    thread = std::move(thread_);
    queue_->changed.notify_all();
  }
  if (!thread.joinable()) return;
  if (hangs)
    thread.detach();
  else
    thread.join();
}

uint64_t Questions::begin(std::function<void()> task) {
  MutexLock lock(queue_->mutex);
  if (!queue_->has_thread) {
    // The one before has said that it ends.
    if (thread_.joinable()) thread_.join();
    thread_ = start_silent_thread([queue = queue_] { work(*queue); });
    queue_->has_thread = true;
  }
  const uint64_t number = ++queue_->last;
  queue_->waiting.emplace_back(number, std::move(task));
  queue_->changed.notify_all();
  return number;
}

void Questions::give_up(uint64_t number) {
  std::function<void()> task;  // let go when the lock is
  MutexLock lock(queue_->mutex);
  const auto found = std::ranges::find(queue_->waiting, number, [](const auto& each) { return each.first; });
  if (found == queue_->waiting.end()) {
    queue_->given_up = std::max(queue_->given_up, number);
    return;
  }
  task = std::move(found->second);
  queue_->waiting.erase(found);
}

void Questions::work(Queue& queue) {
  for (;;) {
    std::function<void()> task;
    {
      MutexLock lock(queue.mutex);
      queue.asked_now = 0;
      const auto until = std::chrono::steady_clock::now() + idle_limit;
      while (queue.waiting.empty() && !queue.stopped && std::chrono::steady_clock::now() < until)
        lock.wait_until(queue.changed, until);
      if (queue.waiting.empty()) {
        queue.has_thread = false;
        return;
      }
      queue.asked_now = queue.waiting.front().first;
      task = std::move(queue.waiting.front().second);
      queue.waiting.pop_front();
    }
    task();  // a packaged task: it keeps what it throws
  }
}

}  // namespace gradwire::net
