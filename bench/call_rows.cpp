// Rows of the rpc layer: calls between two processes.
#include <atomic>
#include <mutex>
#include <semaphore>
#include <thread>

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "gradwire/gradwire.h"

#include "processes.h"
#include "row.h"

namespace gradwire::bench {
namespace {

constexpr Function<at::Tensor(at::Tensor, at::Tensor)> add{"add"};
constexpr Function<int()> take_lock{"take_lock"};
constexpr Function<void(bool)> hold_lock{"hold_lock"};
constexpr size_t megabyte = size_t{1} << 20U;

struct Lock {
  std::binary_semaphore semaphore{1};
};

Registry make_registry() {
  Registry registry;
  registry.add(add, [](const at::Tensor& a, const at::Tensor& b) { return a.add(b); });
  registry.allow_operators("aten::*");
  // A lock of the user's own, that Gradwire knows nothing of.
  auto lock = std::make_shared<Lock>();
  registry.add(take_lock, [lock] {
    lock->semaphore.acquire();
    lock->semaphore.release();
    return 1;
  });
  registry.add(hold_lock, [lock](bool hold) {
    if (hold)
      lock->semaphore.acquire();
    else
      lock->semaphore.release();
  });
  return registry;
}

using Pair = PairOfProcesses<make_registry>;

double blocking_function() {
  const Pair pair;
  return 1e6 * median_seconds(10000, [&] { pair.peer.call(add, pair.small, pair.small).get(); });
}

double blocking_operator() {
  const Pair pair;
  return 1e6 * median_seconds(10000, [&] { pair.peer.op("aten::add.Tensor", pair.small, pair.small, 1).get(); });
}

// As many under way at a time as torch's baseline has.
double async_rate() {
  const Pair pair;
  constexpr int batch = 1000;
  const auto round = [&] {
    std::vector<Future<at::Tensor>> futures;
    futures.reserve(batch);
    for (int i = 0; i < batch; ++i) futures.push_back(pair.peer.call(add, pair.small, pair.small));
    for (Future<at::Tensor>& future : futures) future.get();
  };
  return batch / median_seconds(50, round);
}

double round_trip(size_t megabytes) {
  const Pair pair;
  const at::Tensor large = at::ones({static_cast<int64_t>(megabytes * megabyte / sizeof(float))});
  return 1e3 * median_seconds(megabytes > 100  ? 9
                              : megabytes > 10 ? 51
                                               : 501,
                              [&] { pair.peer.op("aten::detach", large).get(); });
}

double percentile(std::vector<double> values, double which) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(static_cast<double>(values.size() - 1) * which)];
}

// Closes C19. Another thread sends half as many calls as the pair can take, evenly.
double p99_at_half_load() {
  Pair pair;
  const double rate = 50000;  // about half of what two busy cores do when the bench itself takes its part
  std::atomic<bool> stop = false;
  std::thread load([&] {
    auto next = std::chrono::steady_clock::now();
    std::vector<Future<at::Tensor>> futures;
    while (!stop) {
      const int burst = 50;
      for (int i = 0; i < burst; ++i) futures.push_back(pair.peer.call(add, pair.small, pair.small));
      next += std::chrono::nanoseconds(static_cast<int64_t>(1e9 * burst / rate));
      std::this_thread::sleep_until(next);
      for (Future<at::Tensor>& future : futures) future.get();
      futures.clear();
    }
  });
  std::vector<double> seconds;
  for (int i = 0; i < 5000; ++i)
    seconds.push_back(seconds_of([&] { pair.peer.call(add, pair.small, pair.small).get(); }));
  stop = true;
  load.join();
  return 1e6 * percentile(seconds, 0.99);
}

double during_bulk() {
  Pair pair;
  const at::Tensor large = at::ones({static_cast<int64_t>(64 * megabyte / sizeof(float))});
  std::atomic<bool> stop = false;
  std::thread bulk([&] {
    while (!stop) pair.peer.op("aten::detach", large).get();
  });
  const double seconds = median_seconds(3000, [&] { pair.peer.call(add, pair.small, pair.small).get(); });
  stop = true;
  bulk.join();
  return 1e6 * seconds;
}

// A call right behind one whose function blocks on a lock of the user's: the worst of a hundred but one.
double behind_blocked() {
  Pair pair;
  std::vector<double> seconds;
  for (int i = 0; i < 500; ++i) {
    pair.peer.call(hold_lock, true).get();
    Future<int> blocked = pair.peer.call(take_lock);
    seconds.push_back(seconds_of([&] { pair.peer.call(add, pair.small, pair.small).get(); }));
    pair.peer.call(hold_lock, false).get();
    blocked.get();
  }
  return 1e6 * percentile(seconds, 0.99);
}

// Both processes together, after what they need to begin with.
double memory_growth() {
  Pair pair;
  const auto calls = [&](int count) {
    for (int done = 0; done < count; done += 1000) {
      std::vector<Future<at::Tensor>> futures;
      for (int i = 0; i < 1000; ++i) futures.push_back(pair.peer.call(add, pair.small, pair.small));
      for (Future<at::Tensor>& future : futures) future.get();
    }
  };
  calls(1'000'000);
  const double before = pair.resident_bytes();
  calls(1'000'000);
  return 100 * (pair.resident_bytes() - before) / before;
}

// The same for calls with two limits, the longer of which is always under way.
double memory_growth_mixed_timeouts() {
  Pair pair;
  const Peer patient = pair.peer.with_timeout(std::chrono::seconds(60));
  const Peer hasty = pair.peer.with_timeout(std::chrono::milliseconds(500));
  std::vector<Future<at::Tensor>> under_way;
  const auto calls = [&](int count) {
    for (int done = 0; done < count; done += 1000) {
      std::vector<Future<at::Tensor>> futures;
      for (int i = 0; i < 1000; ++i)
        futures.push_back((i % 2 == 0 ? patient : hasty).call(add, pair.small, pair.small));
      for (Future<at::Tensor>& future : under_way) future.get();
      for (size_t i = 1; i < futures.size(); ++i) futures[i].get();
      under_way.assign(futures.begin(), futures.begin() + 1);
    }
  };
  calls(1'000'000);
  const double before = pair.resident_bytes();
  calls(1'000'000);
  const double growth = 100 * (pair.resident_bytes() - before) / before;
  for (Future<at::Tensor>& future : under_way) future.get();
  return growth;
}

}  // namespace

std::vector<Row> call_rows() {
  std::vector<Row> rows{{"call.blocking.operator", "us", blocking_operator},
                        {"call.blocking.function", "us", blocking_function},
                        {"call.async.rate", "per_second", async_rate}};
  for (size_t size : {1, 16, 64, 256})
    rows.push_back({"call.round_trip." + std::to_string(size) + "MB", "ms", [size] { return round_trip(size); }});
  rows.push_back({"call.blocking.p99_at_half_load", "us", p99_at_half_load});
  rows.push_back({"call.blocking.during_bulk", "us", during_bulk});
  rows.push_back({"call.behind_blocked", "us", behind_blocked});
  rows.push_back({"call.memory_growth_per_million", "percent", memory_growth});
  rows.push_back({"call.memory_growth.mixed_timeouts", "percent", memory_growth_mixed_timeouts});
  return rows;
}

}  // namespace gradwire::bench
