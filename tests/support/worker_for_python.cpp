// A worker behind functions that Python's ctypes calls: so one process has torch's process groups, made by torch's own
// Python, and a worker. An error ends here: its text goes to stderr, and the result says that there was one.
#include <cstdio>
#include <exception>

#include "gradwire/gradwire.h"

namespace {

constexpr gradwire::Function<int(int)> twice{"twice"};

template <class Act, class Result>
Result or_else(Result failed, const Act& act) noexcept {
  try {
    return act();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return failed;
  }
}

}  // namespace

extern "C" {

// As the environment says. Null: it failed.
gradwire::Worker* worker_join() {
  return or_else<>(static_cast<gradwire::Worker*>(nullptr), [] {
    gradwire::Registry registry;
    registry.add(twice, [](int x) { return 2 * x; });
    return gradwire::Worker::join(registry, gradwire::WorkerOptions::from_environment()).release();
  });
}

// Twice the value, as the worker of that rank counts. -1: it failed.
int worker_twice(gradwire::Worker* worker, int rank, int value) {
  return or_else<>(-1, [&] { return worker->peer(rank).call(twice, value).get(); });
}

// 0, or -1: it failed. Either way the worker is gone.
int worker_leave(gradwire::Worker* worker) {
  return or_else<>(-1, [&] {
    const std::unique_ptr<gradwire::Worker> owner(worker);
    owner->leave();
    return 0;
  });
}
}
