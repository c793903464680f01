// Coroutines: functions that return a Task or a Future hold no thread while they wait; surroundings go with them.
#include <atomic>
#include <semaphore>
#include <thread>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;

constexpr Function<at::Tensor(at::Tensor, double)> scale{"scale"};
constexpr Function<at::Tensor(std::string, at::Tensor)> through{"through"};
constexpr Function<at::Tensor(std::string, at::Tensor)> through_future{"through_future"};
constexpr Function<int()> hold{"hold"};
constexpr Function<int(std::string)> hold_through{"hold_through"};
constexpr Function<std::string()> guards{"guards"};
constexpr Function<int(int)> countdown{"countdown"};
constexpr Function<void(bool)> may_throw{"may_throw"};
constexpr Function<bool()> cancelled_after_await{"cancelled_after_await"};

struct Observed {
  std::counting_semaphore<> release{0};
  std::atomic<int> entered = 0;
  std::atomic<int> saw_cancelled = 0;
};

// g++ 12 cannot compile a braced list inside a co_await expression ("array used as initializer").
at::Tensor one() { return at::ones({1}); }

Task<int> add_later(Peer peer, int a, int b) {
  at::Tensor sum = co_await peer.call(scale, one().mul(a + b), 1.0);
  co_return sum.item<int>();
}

Task<void> fail_later(Peer peer) {
  co_await peer.call(scale, one(), 1.0);
  throw std::domain_error("after the wait");
}

Registry make_registry(const std::shared_ptr<Observed>& observed = std::make_shared<Observed>()) {
  Registry registry;
  registry.add(scale, [](const at::Tensor& x, double by) { return x.mul(by); });
  registry.add(through, [](std::string next, at::Tensor x) -> Task<at::Tensor> {
    co_return co_await Worker::current().peer(next).call(scale, x, 2.0);
  });
  registry.add(through_future, [](const std::string& next, const at::Tensor& x) {
    return Worker::current().peer(next).call(scale, x, 2.0);
  });
  registry.add(hold, [observed] {
    ++observed->entered;
    observed->release.acquire();
    return 1;
  });
  // By reference, on purpose: arguments stay until the Task has ended.
  registry.add(hold_through, [](const std::string& next) -> Task<int> {
    Worker& before = Worker::current();
    const int one = co_await Worker::current().peer(next).call(hold);
    if (&before != &Worker::current()) throw std::logic_error("another worker is current");
    co_return one + static_cast<int>(next.size());
  });
  registry.add(guards, []() -> Task<std::string> {
    std::string seen;
    const auto note = [&] { seen += c10::GradMode::is_enabled() ? 'g' : 'n'; };
    Peer peer = Worker::current().peer("worker0");
    note();
    {
      c10::AutoGradMode off(false);
      note();
      co_await peer.call(scale, one(), 1.0);
      note();
      {
        c10::AutoGradMode on(true);
        co_await peer.call(scale, one(), 1.0);
        note();
      }
      co_await peer.call(scale, one(), 1.0);
      note();
    }
    note();
    co_await peer.call(scale, one(), 1.0);
    note();
    {
      c10::InferenceMode inference;
      co_await peer.call(scale, one(), 1.0);
      seen += c10::InferenceMode::is_enabled() ? 'i' : '-';
    }
    co_await peer.call(scale, one(), 1.0);
    seen += c10::InferenceMode::is_enabled() ? 'i' : '-';
    co_return seen;
  });
  registry.add(countdown, [](int n) -> Task<int> {
    if (n == 0) co_return 0;
    Worker& here = Worker::current();
    co_return 1 + co_await here.peer(1 - here.rank()).call(countdown, n - 1);
  });
  registry.add(may_throw, [](bool does) -> Task<void> {
    co_await Worker::current().peer("worker0").call(scale, one(), 1.0);
    if (does) throw std::domain_error("in the Task");
  });
  registry.add(cancelled_after_await, [observed]() -> Task<bool> {
    ++observed->entered;
    try {
      co_await Worker::current().peer("worker0").call(hold);
    } catch (const CancelledError&) {
      if (cancelled()) ++observed->saw_cancelled;
      throw;
    }
    co_return false;
  });
  return registry;
}

size_t thread_count(Worker& worker) { return WorkerAccess::core(worker).runtime()->threads().count(); }

TEST(Task, AFunctionMayReturnOneOrAFuture) {
  Cluster cluster(3, make_registry());
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(cluster[0].peer(1).call(through, "worker2", x).get().equal(x.mul(2)));
  EXPECT_TRUE(cluster[0].peer(1).call(through_future, "worker2", x).get().equal(x.mul(2)));
  cluster[0].peer(1).call(may_throw, false).get();
  try {
    cluster[0].peer(1).call(may_throw, true).get();
    FAIL() << "no error";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.origin_type(), "std::domain_error");
  }
}

TEST(Task, HoldsNoThreadWhileItWaits) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(3, make_registry(observed));
  Future<int> first = cluster[0].peer(2).call(hold);
  ASSERT_TRUE(testing::eventually([&] { return observed->entered == 1; }));
  // These 300 Tasks wait for one function each that does not begin: its threads are bounded.
  std::vector<Future<int>> waiting;
  for (int i = 0; i < 300; ++i) waiting.push_back(cluster[0].peer(1).call(hold_through, "worker2"));
  ASSERT_TRUE(testing::eventually([&] { return observed->entered > 1; }));
  // The holding functions have a thread each, at most 301; the Tasks have none.
  EXPECT_LE(thread_count(cluster[0]), 301U + 8U);
  for (int i = 0; i < 301; ++i) observed->release.release();
  EXPECT_EQ(first.get(), 1);
  for (Future<int>& future : waiting) EXPECT_EQ(future.get(), 8);
}

TEST(Task, KeepsItsGuardsAcrossEverySuspensionWhateverThreadItGoesOnWith) {
  Cluster cluster(2, make_registry());
  std::vector<Future<std::string>> futures;
  for (int i = 0; i < 50; ++i) futures.push_back(cluster[0].peer(1).call(guards));
  for (Future<std::string>& future : futures)
    EXPECT_EQ(future.get(),
              "gnngngg"
              "i-");
  // And leaves nothing behind on Gradwire's threads.
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(
        cluster[0]
            .peer(1)
            .call(scale, one(), 1.0)
            .then([](const at::Tensor&) { return c10::GradMode::is_enabled() && !c10::InferenceMode::is_enabled(); })
            .get());
}

TEST(Task, CanBeStartedAndAwaitedFromAnywhere) {
  Cluster cluster(2, make_registry());
  Peer peer = cluster[0].peer(1);
  EXPECT_EQ(add_later(peer, 2, 3).start().get(), 5);
  EXPECT_THROW(fail_later(peer).start().get(), std::domain_error);
  const auto both = [](Peer other) -> Task<int> {
    c10::AutoGradMode off(false);
    const int sum = co_await add_later(other, 1, 2) + co_await add_later(other, 3, 4);
    co_return c10::GradMode::is_enabled() ? -1 : sum;
  };
  EXPECT_EQ(both(peer).start().get(), 10);
  (void)add_later(peer, 1, 1);  // never started: never runs, leaks nothing
  EXPECT_THROW(Worker::current(), InvalidArgumentError);
}

TEST(Task, RecursesDeeplyWithoutThreads) {
  Cluster cluster(2, make_registry(), {.max_threads = 4});
  EXPECT_EQ(cluster[0].peer(1).call(countdown, 2000).get(), 2000);
}

TEST(Task, IsCancelledWithItsCallsAndSeesIt) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(2, make_registry(observed));
  Future<bool> future = cluster[0].peer(1).call(cancelled_after_await);
  ASSERT_TRUE(testing::eventually([&] { return observed->entered == 2; }));
  future.cancel();
  EXPECT_THROW(future.get(), CancelledError);
  EXPECT_TRUE(testing::eventually([&] { return observed->saw_cancelled == 1; }));
  observed->release.release();
}

}  // namespace
}  // namespace gradwire
