// Types whose calls run one at a time, in the order of their arrival.
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using testing::Cluster;
using ::testing::HasSubstr;

constexpr Function<int64_t(int64_t)> same{"same"};

struct Log {
  // Not atomic: calls that overlapped would be found by the sanitizers, and by the counter.
  int64_t add(int64_t x) {
    if (inside.exchange(true)) overlapped = true;
    seen.push_back(x);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    inside = false;
    return static_cast<int64_t>(seen.size());
  }
  // Waits without a thread, and is not over before.
  Task<int64_t> slowly(int64_t x) {
    if (inside.exchange(true)) overlapped = true;
    const int64_t y = co_await Worker::current().peer(1 - Worker::current().rank()).call(same, x);
    seen.push_back(y);
    inside = false;
    co_return static_cast<int64_t>(seen.size());
  }
  int64_t fails(int64_t) { throw std::runtime_error("on purpose"); }
  std::vector<int64_t> all() { return seen; }
  bool good() { return !overlapped; }
  int64_t calls_itself(const RRef<Log>& self) { return self.call(&Log::add, 1).get(); }
  int64_t calls_itself_through(const RRef<Log>& self, int64_t rank);

  std::vector<int64_t> seen;
  std::atomic<bool> inside = false;
  std::atomic<bool> overlapped = false;
};

constexpr Function<int64_t(RRef<Log>)> add_to{"add_to"};
int64_t Log::calls_itself_through(const RRef<Log>& self, int64_t rank) {
  return Worker::current().peer(static_cast<int>(rank)).call(add_to, self).get();
}

Registry make_registry() {
  Registry registry;
  registry.add(same, [](int64_t x) { return x; });
  registry.add(add_to, [](const RRef<Log>& log) { return log.call(&Log::add, 1).get(); });
  registry.add_type<Log>("Log")
      .constructor<>()
      .method("add", &Log::add)
      .method("slowly", &Log::slowly)
      .method("fails", &Log::fails)
      .method("all", &Log::all)
      .method("good", &Log::good)
      .method("calls_itself", &Log::calls_itself)
      .method("calls_itself_through", &Log::calls_itself_through)
      .serialised();
  return registry;
}

TEST(Serialised, CallsRunOneAtATimeInTheOrderTheyWereMade) {
  Cluster cluster(2, make_registry());
  for (const char* owner : {"worker1", "worker0"}) {
    const RRef<Log> log = cluster[0].peer(owner).make<Log>();
    std::vector<Future<int64_t>> calls;
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < 200; ++i) {
      calls.push_back(i % 7 == 3 ? log.call(&Log::slowly, i) : log.call(&Log::add, i));
      expected.push_back(i);
      if (i % 50 == 10) {
        EXPECT_THROW(log.call(&Log::fails, i).get(), RemoteError);
      }
    }
    const std::vector<int64_t> places = when_all(calls).get();
    for (int64_t i = 0; i < 200; ++i) EXPECT_EQ(places[static_cast<size_t>(i)], i + 1);
    EXPECT_EQ(log.call(&Log::all).get(), expected);
    EXPECT_TRUE(log.call(&Log::good).get());
  }
}

TEST(Serialised, CallsFromManyThreadsAndWorkersDoNotOverlap) {
  Cluster cluster(2, make_registry());
  const RRef<Log> log = cluster[0].peer(1).make<Log>();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) log.call(&Log::add, j).get();
    });
  for (int j = 0; j < 50; ++j) cluster[0].peer(1).call(add_to, log).get();
  threads.clear();
  EXPECT_EQ(log.call(&Log::all).get().size(), 250U);
  EXPECT_TRUE(log.call(&Log::good).get());
}

TEST(Serialised, ACallFromInsideAnotherIsAnErrorNotADeadlock) {
  Cluster cluster(2, make_registry());
  const RRef<Log> log = cluster[0].peer(1).make<Log>();
  const auto expect_refused = [](const Future<int64_t>& call) {
    try {
      call.get();
      FAIL();
    } catch (const RemoteError& error) {
      EXPECT_EQ(error.origin_code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr("it would wait for itself"));
    }
  };
  expect_refused(log.call(&Log::calls_itself, log));
  expect_refused(log.call(&Log::calls_itself_through, log, 0));
  expect_refused(log.call(&Log::calls_itself_through, log, 1));
  EXPECT_EQ(log.call(&Log::add, 1).get(), 1);  // and it goes on
}

}  // namespace
}  // namespace gradwire
