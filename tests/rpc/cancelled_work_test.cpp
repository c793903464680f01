// Cancellation that reaches through Tasks and continuations; what a Task refuses.
#include <atomic>
#include <semaphore>

#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;

constexpr Function<int(int)> twice{"twice"};
constexpr Function<int()> wait_until_cancelled{"wait_until_cancelled"};
constexpr Function<int()> starts_a_task{"starts_a_task"};
constexpr Function<int()> cleans_up{"cleans_up"};
constexpr Function<int()> released{"released"};
constexpr Function<int()> shares{"shares"};

struct Observed {
  std::atomic<int> entered = 0;
  std::atomic<int> cancelled = 0;
  std::atomic<int> task_saw_it = 0;
  std::atomic<int> cleaned_up = 0;
  std::binary_semaphore release{0};
  std::optional<Future<int>> shared;
};

Task<int> call_slowly(Peer peer) { co_return co_await peer.call(wait_until_cancelled); }

Registry make_registry(const std::shared_ptr<Observed>& observed) {
  Registry registry;
  registry.add(twice, [](int x) { return 2 * x; });
  registry.add(wait_until_cancelled, [observed] {
    ++observed->entered;
    while (!cancelled()) std::this_thread::sleep_for(1ms);
    ++observed->cancelled;
    return 1;
  });
  registry.add(starts_a_task, [observed]() -> Future<int> {
    return [](Peer peer, std::shared_ptr<Observed> seen) -> Task<int> {
      try {
        co_return co_await peer.call(wait_until_cancelled);
      } catch (const CancelledError&) {
        if (cancelled() && stop_token().stop_requested()) ++seen->task_saw_it;
        throw;
      }
    }(Worker::current().peer("worker0"), observed)
                                                                .start();
  });
  registry.add(released, [observed] {
    observed->release.acquire();
    return 7;
  });
  registry.add(shares, [observed]() -> Future<int> {
    ++observed->entered;
    return observed->shared->then([](int x) { return x; });
  });
  // After its cancellation it begins a Task, a continuation and a call: these are not cancelled.
  registry.add(cleans_up, [observed]() -> int {
    ++observed->entered;
    while (!cancelled()) std::this_thread::sleep_for(1ms);
    const auto task = [](Peer peer) -> Task<int> {
      const bool told = cancelled() && stop_token().stop_requested();
      co_return co_await peer.call(twice, told ? 1 : 0);
    };
    const Peer peer = Worker::current().peer("worker0");
    const int sum = task(peer).start().get() + peer.call(twice, 2).then([](int x) { return x; }).get();
    observed->cleaned_up = sum;
    return sum;
  });
  return registry;
}

class CancelledWork : public ::testing::Test {
 protected:
  bool entered(int count) {
    return testing::eventually([this, count] { return observed->entered == count; });
  }
  bool all_were_told() {
    return testing::eventually([this] { return observed->cancelled == observed->entered; });
  }
  std::shared_ptr<Observed> observed = std::make_shared<Observed>();
  Cluster cluster{2, make_registry(observed)};
  Peer peer = cluster[0].peer(1);
};

TEST_F(CancelledWork, N1_CancelOnTheFutureOfATaskCompletesItAtOnceAndTellsTheCallee) {
  Future<int> future = call_slowly(peer).start();
  ASSERT_TRUE(entered(1));
  future.cancel();
  EXPECT_TRUE(future.done());
  EXPECT_THROW(future.get(), CancelledError);
  EXPECT_TRUE(all_were_told());
}

TEST_F(CancelledWork, N1_ATaskSeesItsCancellationAndItsLaterCallsAreNotCancelled) {
  std::atomic<int> sum = 0;
  Future<int> future = [](Peer other, std::atomic<int>& result) -> Task<int> {
    std::atomic<bool> stopped = false;
    const std::stop_callback callback(stop_token(), [&] { stopped = true; });
    try {
      co_await other.call(wait_until_cancelled);
    } catch (const CancelledError&) {
    }
    const int cleaned = co_await other.call(twice, cancelled() && stopped ? 21 : 0);
    result = cleaned;
    co_return cleaned;
  }(peer, sum)
                                                                       .start();
  ASSERT_TRUE(entered(1));
  future.cancel();
  EXPECT_THROW(future.get(), CancelledError);
  EXPECT_TRUE(testing::eventually([&] { return sum == 42; }));
}

TEST_F(CancelledWork, N1_AContinuationThatReturnedATaskOrAFutureIsCancelledWithIt) {
  const auto as_task = [this](int) { return call_slowly(peer); };
  const auto as_future = [this](int) { return peer.call(wait_until_cancelled); };
  const Future<int> by_task = peer.call(twice, 1).then(as_task);
  const Future<int> by_future = peer.call(twice, 1).then(as_future);
  const Future<int> of_both = when_all(std::vector{by_task, by_future}).then([](const auto&) { return 1; });
  ASSERT_TRUE(entered(2));
  of_both.cancel();
  for (const Future<int>& future : {by_task, by_future, of_both}) {
    EXPECT_TRUE(future.done());
    EXPECT_THROW(future.get(), CancelledError);
  }
  EXPECT_TRUE(all_were_told());
}

TEST_F(CancelledWork, N1_AContinuationThatWaitsInItsBodyIsCancelledWithItsCalls) {
  const Future<int> future = peer.call(twice, 1).then([this](int) { return peer.call(wait_until_cancelled).get(); });
  ASSERT_TRUE(entered(1));
  future.cancel();
  EXPECT_TRUE(future.done());
  EXPECT_THROW(future.get(), CancelledError);
  EXPECT_TRUE(all_were_told());
}

TEST_F(CancelledWork, N1_AContinuationWhoseCallIsCancelledKeepsTheNameOfTheCallee) {
  const Future<int> future = peer.call(wait_until_cancelled).then([](int x) { return x; });
  ASSERT_TRUE(entered(1));
  future.cancel();
  EXPECT_TRUE(future.done());
  try {
    future.get();
    FAIL() << "no error";
  } catch (const CancelledError& error) {
    EXPECT_EQ(error.worker(), "worker1");
  }
  EXPECT_TRUE(all_were_told());
}

TEST_F(CancelledWork, N1_CancellingOneTaskDoesNotTouchAnother) {
  const Future<int> first = call_slowly(peer).start();
  const Future<int> second = call_slowly(peer).start();
  ASSERT_TRUE(entered(2));
  first.cancel();
  EXPECT_TRUE(testing::eventually([this] { return observed->cancelled == 1; }));
  EXPECT_FALSE(second.done());
  second.cancel();
  EXPECT_TRUE(all_were_told());
}

TEST_F(CancelledWork, N1_ATaskOfAFunctionIsCancelledWithTheFunction) {
  const Future<int> future = peer.call(starts_a_task);
  ASSERT_TRUE(entered(1));
  future.cancel();
  EXPECT_THROW(future.get(), CancelledError);
  EXPECT_TRUE(all_were_told());
  EXPECT_TRUE(testing::eventually([this] { return observed->task_saw_it == 1; }));
}

TEST_F(CancelledWork, N1_WhatIsBegunAfterTheCancellationRunsAndSeesIt) {
  const Future<int> future = peer.call(cleans_up);
  ASSERT_TRUE(entered(1));
  future.cancel();
  EXPECT_TRUE(testing::eventually([this] { return observed->cleaned_up == 2 + 4; }));
}

TEST_F(CancelledWork, N1_ATaskThatIsCancelledWithinATaskReachesTheWholeTree) {
  const auto tree = [](Peer other) -> Task<int> {
    std::vector<Future<int>> below;
    for (int i = 0; i < 4; ++i) below.push_back(call_slowly(other).start());
    const std::vector<int> values = co_await when_all(below);
    co_return static_cast<int>(values.size());
  };
  const Future<int> future = tree(peer).start();
  ASSERT_TRUE(entered(4));
  future.cancel();
  EXPECT_THROW(future.get(), CancelledError);
  EXPECT_TRUE(all_were_told());
}

TEST_F(CancelledWork, N1_AFunctionThatIsCancelledLeavesAloneWhatOthersWaitFor) {
  observed->shared = cluster[1].peer(0).call(released);
  const Future<int> first = peer.call(shares);
  const Future<int> second = peer.call(shares);
  ASSERT_TRUE(entered(2));
  first.cancel();
  EXPECT_THROW(first.get(), CancelledError);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(peer.call(twice, i).get(), 2 * i);  // behind the cancellation
  EXPECT_FALSE(observed->shared->done());
  observed->release.release();
  EXPECT_EQ(second.get(), 7);
}

// Item 20 of the review's small findings.
TEST_F(CancelledWork, ATaskThatWasMovedFromIsAnErrorWhereItIsUsed) {
  Task<int> task = call_slowly(peer);
  const Task<int> other = std::move(task);
  EXPECT_THROW((void)std::move(task).start(), InvalidArgumentError);  // NOLINT(bugprone-use-after-move): the point
  const auto awaits = [](Task<int> moved) -> Task<int> {
    const Task<int> away = std::move(moved);
    co_return co_await std::move(moved);
  };
  EXPECT_THROW(awaits(call_slowly(peer)).start().get(), InvalidArgumentError);
  auto state = std::make_shared<FutureStateOf<int>>(net::Runtime::of_process());
  EXPECT_THROW(std::move(task).run_into(state), InvalidArgumentError);
}

}  // namespace
}  // namespace gradwire
