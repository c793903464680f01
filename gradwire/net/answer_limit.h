// Calls into c10d's stores, which wait for an answer without a limit: a server that is stopped, or a file that somebody
// has locked, would hold the caller for ever.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace gradwire::net {

// What `act` gives or throws; nothing if it has not ended by the deadline. Its thread is then left to itself, so `act`
// owns what it uses.
template <class Act>
auto answer_by(std::chrono::steady_clock::time_point deadline, Act act) {
  using Result = std::invoke_result_t<Act>;
  std::packaged_task<Result()> task(std::move(act));
  std::future<Result> answer = task.get_future();
  // Signals are the program's own business: its threads get them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread(std::move(task));
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const bool in_time = answer.wait_until(deadline) == std::future_status::ready;
  if (!in_time) {
    thread.detach();
    return std::optional<Result>();
  }
  thread.join();
  return std::optional<Result>(answer.get());
}

}  // namespace gradwire::net
