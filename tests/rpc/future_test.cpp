// Futures: then, when_all, when_any, cancellation, timeouts; Q1-Q3.
#include <atomic>
#include <latch>
#include <mutex>
#include <semaphore>
#include <thread>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/rpc/call_messages.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;

constexpr Function<int(int)> twice{"twice"};
constexpr Function<void()> nothing{"nothing"};
constexpr Function<int()> wait_until_cancelled{"wait_until_cancelled"};
constexpr Function<int()> wait_for_stop{"wait_for_stop"};
constexpr Function<int()> nested_wait{"nested_wait"};
constexpr Function<int()> hold{"hold"};
constexpr Function<int(int)> fail{"fail"};

struct Observed {
  std::atomic<int> cancelled = 0;
  std::atomic<int> entered = 0;
  std::atomic<int> executed = 0;
  std::counting_semaphore<> release{0};
};

Registry make_registry(const std::shared_ptr<Observed>& observed = std::make_shared<Observed>()) {
  Registry registry;
  registry.add(twice, [observed](int x) {
    ++observed->executed;
    return 2 * x;
  });
  registry.add(nothing, [] {});
  registry.add(fail, [](int) -> int { throw std::runtime_error("no luck"); });
  registry.add(wait_until_cancelled, [observed] {
    ++observed->entered;
    while (!cancelled()) std::this_thread::sleep_for(1ms);
    ++observed->cancelled;
    return 1;
  });
  registry.add(wait_for_stop, [observed] {
    std::binary_semaphore stopped{0};
    std::stop_callback callback(stop_token(), [&] { stopped.release(); });
    ++observed->entered;
    stopped.acquire();
    ++observed->cancelled;
    return 1;
  });
  registry.add(nested_wait, [observed] {
    ++observed->entered;
    return Worker::current().peer("worker0").call(wait_until_cancelled).get();
  });
  registry.add(hold, [observed] {
    ++observed->entered;
    observed->release.acquire();
    return 3;
  });
  return registry;
}

TEST(Future, IsCopyableAndGivesItsValueToEveryone) {
  Cluster cluster(2, make_registry());
  Future<int> future = cluster[0].peer(1).call(twice, 4);
  const Future<int> copy = future;  // NOLINT(performance-unnecessary-copy-initialization): the point of the test
  EXPECT_EQ(copy.get(), 8);
  EXPECT_EQ(future.get(), 8);
  EXPECT_TRUE(copy.done());
  cluster[0].peer(1).call(nothing).get();
}

TEST(Future, DroppedCancelsNothing) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(2, make_registry(observed));
  for (int i = 0; i < 100; ++i) (void)cluster[0].peer(1).call(twice, i);
  EXPECT_TRUE(testing::eventually([&] { return observed->executed == 100; }));
}

TEST(Future, ThenMakesANewOneOfTheValueAndWaitsForFuturesAndTasks) {
  Cluster cluster(2, make_registry());
  Peer peer = cluster[0].peer(1);
  EXPECT_EQ(peer.call(twice, 4).then([](int x) { return x + 1; }).get(), 9);
  EXPECT_EQ(peer.call(twice, 4).then([peer](int x) { return peer.call(twice, x); }).get(), 16);
  EXPECT_EQ(peer.call(twice, 4).then([peer](int x) -> Task<int> { co_return co_await peer.call(twice, x) + 1; }).get(),
            17);
  EXPECT_EQ(peer.call(nothing).then([] { return std::string("after"); }).get(), "after");
  int seen = 0;
  peer.call(twice, 1).then([&](int x) { seen = x; }).get();
  EXPECT_EQ(seen, 2);
}

TEST(Future, ThenPassesErrorsOnWithoutCallingTheFunction) {
  Cluster cluster(2, make_registry());
  bool called = false;
  auto future = cluster[0].peer(1).call(fail, 1).then([&](int) { return called = true; });
  EXPECT_THROW(future.get(), RemoteError);
  EXPECT_FALSE(called);
  EXPECT_THROW(cluster[0].peer(1).call(twice, 1).then([](int) -> int { throw std::domain_error("own"); }).get(),
               std::domain_error);
}

TEST(Future, ContinuationsRunOnOtherThreadsWithTheSurroundingsTheyWereRegisteredUnder) {
  Cluster cluster(2, make_registry());
  const auto here = std::this_thread::get_id();
  std::mutex mutex;
  std::unique_lock lock(mutex);  // never inside someone else's get: this would deadlock
  auto checked = cluster[0].peer(1).call(twice, 1).then([&](int) {
    std::unique_lock inside(mutex);
    return std::this_thread::get_id() != here;
  });
  cluster[0].peer(1).call(twice, 1).get();
  lock.unlock();
  EXPECT_TRUE(checked.get());
  Future<int> call = cluster[0].peer(1).call(twice, 1);
  std::optional<Future<bool>> off;
  {
    c10::AutoGradMode no_grad(false);
    off = call.then([](int) { return c10::GradMode::is_enabled(); });
  }
  EXPECT_TRUE(call.then([](int) { return c10::GradMode::is_enabled(); }).get());
  EXPECT_FALSE(off->get());
}

TEST(Future, WhenAllGivesAllValuesInOrderOrTheFirstError) {
  Cluster cluster(3, make_registry());
  std::vector<Future<int>> futures;
  for (int i = 0; i < 100; ++i) futures.push_back(cluster[0].peer(1 + i % 2).call(twice, i));
  std::vector<int> all = when_all(futures).get();
  ASSERT_EQ(all.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(all[static_cast<size_t>(i)], 2 * i);
  futures.push_back(cluster[0].peer(1).call(fail, 1));
  EXPECT_THROW(when_all(futures).get(), RemoteError);
  auto [number, none, text] = when_all(cluster[0].peer(1).call(twice, 1), cluster[0].peer(2).call(nothing),
                                       cluster[0].peer(2).call(twice, 2).then([](int x) { return std::to_string(x); }))
                                  .get();
  EXPECT_EQ(number, 2);
  EXPECT_EQ(text, "4");
  (void)none;
  EXPECT_TRUE(when_all(std::vector<Future<int>>{}).get().empty());
  when_all(std::vector<Future<void>>{cluster[0].peer(1).call(nothing)}).get();
}

TEST(Future, WhenAnyGivesTheFirst) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(2, make_registry(observed));
  std::vector<Future<int>> futures{cluster[0].peer(1).call(hold), cluster[0].peer(1).call(twice, 3)};
  const auto [place, value] = when_any(futures).get();
  EXPECT_EQ(place, 1U);
  EXPECT_EQ(value, 6);
  observed->release.release();
  EXPECT_EQ(futures[0].get(), 3);
  EXPECT_THROW((void)when_any(std::vector<Future<int>>{}), InvalidArgumentError);
}

TEST(Cancellation, ReachesTheCalleeAndCompletesTheFutureAtOnce) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(2, make_registry(observed));
  for (const auto& function : {wait_until_cancelled, wait_for_stop}) {
    observed->entered = observed->cancelled = 0;
    Future<int> future = cluster[0].peer(1).call(function);
    ASSERT_TRUE(testing::eventually([&] { return observed->entered == 1; }));
    future.cancel();
    future.cancel();
    EXPECT_THROW(future.get(), CancelledError);
    EXPECT_TRUE(testing::eventually([&] { return observed->cancelled == 1; }));
  }
  // Q3: the late replies were dropped, and calls go on.
  EXPECT_EQ(cluster[0].peer(1).call(twice, 2).get(), 4);
}

TEST(Cancellation, ReachesTheCallsThatTheFunctionHasUnderWay) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(2, make_registry(observed));
  Future<int> future = cluster[0].peer(1).call(nested_wait);
  ASSERT_TRUE(testing::eventually([&] { return observed->entered == 2; }));
  future.cancel();
  EXPECT_THROW(future.get(), CancelledError);
  EXPECT_TRUE(testing::eventually([&] { return observed->cancelled == 1; }));
}

TEST(Cancellation, OfADerivedFutureCancelsWhatItWaitsFor) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(2, make_registry(observed));
  auto derived = cluster[0].peer(1).call(wait_until_cancelled).then([](int x) { return x; });
  auto all = when_all(std::vector{cluster[0].peer(1).call(wait_until_cancelled)});
  ASSERT_TRUE(testing::eventually([&] { return observed->entered == 2; }));
  derived.cancel();
  all.cancel();
  EXPECT_THROW(derived.get(), CancelledError);
  EXPECT_THROW(all.get(), CancelledError);
  EXPECT_TRUE(testing::eventually([&] { return observed->cancelled == 2; }));
}

TEST(Cancellation, ReachesTheCalleeWhenTheCallerDies) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(2, make_registry(observed));
  (void)cluster[0].peer(1).call(wait_until_cancelled);
  ASSERT_TRUE(testing::eventually([&] { return observed->entered == 1; }));
  cluster.kill("worker0");
  EXPECT_TRUE(testing::eventually([&] { return observed->cancelled == 1; }));
}

TEST(Timeout, EndsTheCallNamesItAndTellsTheCallee) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(2, make_registry(observed));
  try {
    cluster[0].peer(1).with_timeout(30ms).call(wait_until_cancelled).get();
    FAIL() << "no error";
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.worker(), "worker1");
    EXPECT_NE(std::string(error.what()).find("\"wait_until_cancelled\" at worker1 took longer than 30 ms"),
              std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(testing::eventually([&] { return observed->cancelled == 1; }));
  EXPECT_EQ(cluster[0].peer(1).with_timeout(Peer::no_timeout).call(twice, 2).get(), 4);
  EXPECT_EQ(cluster[0].peer(1).with_timeout(std::chrono::hours::max()).call(twice, 2).get(), 4);
  EXPECT_THROW(cluster[0].peer(1).with_timeout(0s).call(hold).get(), TimeoutError);
  observed->release.release();
}

TEST(Timeout, OfTheWorkerHoldsForAllItsCallsAndEachHasItsOwn) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(2, make_registry(observed), {.call_timeout = 20ms});
  Future<int> longer = cluster[0].peer(1).with_timeout(60s).call(hold);
  std::vector<Future<int>> short_ones;
  for (int i = 0; i < 5; ++i) short_ones.push_back(cluster[0].peer(1).call(wait_until_cancelled));
  for (Future<int>& future : short_ones) EXPECT_THROW(future.get(), TimeoutError);
  EXPECT_FALSE(longer.done());
  observed->release.release();
  EXPECT_EQ(longer.get(), 3);
  EXPECT_TRUE(testing::eventually([&] { return observed->cancelled == 5; }));
}

TEST(Call, Q1_CompletesOnceHoweverResultTimeoutCancellationAndDeathRace) {
  for (int round = 0; round < 20; ++round) {
    auto observed = std::make_shared<Observed>();
    Cluster cluster(2, make_registry(observed));
    Peer peer = cluster[0].peer(1);
    std::vector<Future<int>> futures;
    std::atomic<int> completed = 0;
    for (int i = 0; i < 50; ++i) {
      futures.push_back(peer.with_timeout(1ms * (1 + i % 4)).call(twice, i));
      (void)futures.back().then([&](int) { ++completed; });
    }
    std::thread canceller([&] {
      for (const Future<int>& future : futures) future.cancel();
    });
    if (round % 2 == 0) cluster.kill("worker1");
    int values = 0;
    for (size_t i = 0; i < futures.size(); ++i) try {
        EXPECT_EQ(futures[i].get(), static_cast<int>(2 * i));
        ++values;
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::timeout || error.code() == ErrorCode::cancelled ||
                    error.code() == ErrorCode::gone)
            << error.what();
      }
    canceller.join();
    EXPECT_TRUE(testing::eventually([&] { return completed == values; }));
  }
}

TEST(Call, CanBeAnsweredByItsCalleeOnly) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(3, make_registry(observed));
  Future<int> future = cluster[0].peer(1).call(hold);
  ASSERT_TRUE(testing::eventually([&] { return observed->entered == 1; }));
  // worker2 answers every call that worker0 may have under way, and then one of its own.
  WorkerCore& other = WorkerAccess::core(cluster[2]);
  const net::Record record = WorkerAccess::core(cluster[0]).record();
  for (uint64_t call = 1; call <= 20; ++call) {
    wire::ByteWriter head;
    head.put(call);
    head.put(false);
    other.endpoint()->session(record)->send(
        {.type = reply_type, .head = head.take(), .payload = wire::encode(int32_t{666})}, net::Admission::always);
  }
  EXPECT_EQ(cluster[2].peer(0).call(twice, 4).get(), 8);
  EXPECT_FALSE(future.done());
  observed->release.release();
  EXPECT_EQ(future.get(), 3);
}

struct ThrowsWhenMoved {
  ThrowsWhenMoved() = default;
  ThrowsWhenMoved(const ThrowsWhenMoved&) = default;
  ThrowsWhenMoved(ThrowsWhenMoved&&) { throw std::length_error("too large to move"); }  // NOLINT
};

TEST(Future, F9_IsFailedIfItsValueCannotBeStored) {
  Cluster cluster(2, make_registry());
  const Future<ThrowsWhenMoved> future = cluster[0].peer(1).call(twice, 1).then([](int) { return ThrowsWhenMoved(); });
  ASSERT_TRUE(testing::eventually([&] { return future.done(); }, 10s)) << "whoever gets it would wait for ever";
  EXPECT_THROW((void)future.get(), std::length_error);
}

TEST(Call, Q2_RunsExactlyOnceOverBrokenLinks) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(2, make_registry(observed));
  Peer peer = cluster[0].peer(1);
  std::vector<Future<int>> futures;
  for (int i = 0; i < 300; ++i) {
    futures.push_back(peer.call(twice, i));
    if (i % 25 == 0) cluster.network().break_links("worker0", "worker1");
  }
  for (size_t i = 0; i < futures.size(); ++i) EXPECT_EQ(futures[i].get(), static_cast<int>(2 * i));
  EXPECT_EQ(observed->executed, 300);
}

}  // namespace
}  // namespace gradwire
