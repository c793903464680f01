// Threads: a blocked one is replaced (C23), others are not held up, user's threads run nothing of others.
#include <atomic>
#include <latch>
#include <mutex>
#include <semaphore>
#include <thread>

#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;

constexpr Function<int(int)> bounce{"bounce"};
constexpr Function<int(int)> echo{"echo"};
constexpr Function<int()> lock_it{"lock_it"};
constexpr Function<bool()> call_back{"call_back"};

struct Observed {
  std::mutex mutex;
  std::atomic<int> entered = 0;
};

Registry make_registry(const std::shared_ptr<Observed>& observed = std::make_shared<Observed>()) {
  Registry registry;
  registry.add(echo, [](int x) { return x; });
  // Negative: for ever.
  registry.add(bounce, [](int left) -> int {
    if (left == 0) return 0;
    Worker& here = Worker::current();
    return 1 + here.peer(1 - here.rank()).call(bounce, left - 1).get();
  });
  registry.add(lock_it, [observed] {
    ++observed->entered;
    const std::scoped_lock lock(observed->mutex);
    return 1;
  });
  registry.add(call_back, [] { return Worker::current().peer("worker0").call(echo, 1).get() == 1; });
  return registry;
}

TEST(Threads, C23_FiveHundredNestedBlockingCallsBackAndForthComplete) {
  Cluster cluster(2, make_registry());
  EXPECT_EQ(cluster[0].peer(1).call(bounce, 500).get(), 500);
}

TEST(Threads, C23_N31_EndlessRecursionEndsInAnErrorAndTheProcessLives) {
  Cluster cluster(2, make_registry(), {.max_threads = 100});
  try {
    cluster[0].peer(1).call(bounce, -1).get();
    FAIL() << "no error";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.origin_code(), ErrorCode::overloaded) << error.what();
    EXPECT_GE(error.chain().size(), 199U);
    EXPECT_NE(std::string(error.what()).find("max_threads"), std::string::npos);
    // N31: the first and the last few calls, and how many lie between.
    const std::string text = error.what();
    EXPECT_LT(text.size(), 1000U) << text;
    size_t named = 0;
    for (size_t at = text.find("failed at"); at != std::string::npos; at = text.find("failed at", at + 1)) ++named;
    EXPECT_EQ(named, 6U) << text;
    EXPECT_NE(text.find(std::to_string(error.chain().size() - 6)), std::string::npos) << text;
    EXPECT_EQ(text.find("\"bounce\" failed at worker1"), 0U) << text;
  }
  EXPECT_EQ(cluster[0].peer(1).call(echo, 5).get(), 5);
  EXPECT_EQ(cluster[0].peer(1).call(bounce, 50).get(), 50);
}

TEST(Threads, AFunctionThatBlocksOnAUsersMutexDoesNotHoldUpOthers) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(2, make_registry(observed));
  Peer peer = cluster[0].peer(1);
  std::vector<Future<int>> blocked;
  {
    const std::scoped_lock lock(observed->mutex);
    for (int i = 0; i < 20; ++i) {
      blocked.push_back(peer.call(lock_it));
      EXPECT_EQ(peer.call(echo, i).get(), i);
    }
    EXPECT_TRUE(testing::eventually([&] { return observed->entered == 20; }));
  }
  for (Future<int>& future : blocked) EXPECT_EQ(future.get(), 1);
}

TEST(Threads, AUsersThreadThatWaitsNeverRunsFunctions) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(2, make_registry(observed));
  // The function that worker1 calls back takes a lock that this thread holds while it waits.
  Registry registry;
  const std::scoped_lock lock(observed->mutex);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(cluster[0].peer(1).call(call_back).get());
  Future<int> locked = cluster[1].peer(0).call(lock_it);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(cluster[0].peer(1).call(call_back).get());
  EXPECT_FALSE(locked.done());
}

TEST(Threads, ManyCallersAtOnceGetTheirOwnResults) {
  Cluster cluster(3, make_registry());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Peer peer = cluster[t % 2].peer(2);
      for (int i = 0; i < 300; ++i)
        if (peer.call(echo, t * 1000 + i).get() != t * 1000 + i) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace gradwire
