// What a worker counts.
#include <thread>

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "gradwire/gradwire.h"
#include "gradwire/rpc/latency.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(LatencyCounts, AreExactToAFifth) {
  LatencyCounts counts;
  EXPECT_EQ(counts.read().count, 0U);
  for (int i = 1; i <= 1000; ++i) counts.add(std::chrono::microseconds(i));
  counts.add(-1ns);  // a clock that went back
  const Latency latency = counts.read();
  EXPECT_EQ(latency.count, 1001U);
  EXPECT_NEAR(static_cast<double>(latency.mean.count()), 500'000, 1'000);
  for (const auto& [got, exact] :
       {std::pair(latency.median, 500us), std::pair(latency.p99, 990us), std::pair(latency.longest, 1000us)}) {
    EXPECT_GE(got, exact * 0.99);
    EXPECT_LE(got, exact * 1.26);
  }
}

inline constexpr Function<at::Tensor(at::Tensor)> twice{"twice"};
inline constexpr Function<void()> fail{"fail"};
inline constexpr Function<void()> nap{"nap"};
inline constexpr Function<void()> wait_until_cancelled{"wait_until_cancelled"};

TEST(Metrics, CountCallsBytesContextsAndReferences) {
  Registry registry;
  registry.add(twice, [](const at::Tensor& x) { return x.mul(2); });
  registry.add(fail, [] { throw std::runtime_error("no"); });
  registry.add(nap, [] { std::this_thread::sleep_for(20ms); });
  testing::Cluster cluster(2, registry);
  Peer peer = cluster[0].peer(1);
  const Metrics before = cluster[0].metrics();

  const at::Tensor small = at::ones({10}), large = at::ones({1 << 20});
  for (int i = 0; i < 10; ++i) peer.call(twice, small).get();
  peer.call(twice, large).get();
  peer.call(nap).get();
  EXPECT_ANY_THROW(peer.call(fail).get());
  EXPECT_ANY_THROW(peer.with_timeout(1ms).call(nap).get());
  const RRef<at::Tensor> kept = peer.remote(twice, small);
  kept.to_here();
  const autograd::Context context(cluster[0]);

  EXPECT_TRUE(testing::eventually([&] { return cluster[1].metrics().functions_running == 0; }));
  const Metrics here = cluster[0].metrics(), there = cluster[1].metrics();
  EXPECT_EQ(here.calls.count - before.calls.count, 16U);
  EXPECT_EQ(here.calls_failed, 2U);
  EXPECT_EQ(here.calls_under_way, 0U);
  EXPECT_GE(here.calls.longest, 20ms);
  EXPECT_EQ(there.functions.count, 16U);
  EXPECT_GE(there.functions.longest, 20ms);
  EXPECT_EQ(there.queued.count, 16U);
  EXPECT_GE(here.bytes_sent - before.bytes_sent, large.nbytes());
  EXPECT_LE(here.bytes_sent - before.bytes_sent, large.nbytes() + 20'000);
  EXPECT_GE(here.bytes_received, large.nbytes());
  EXPECT_GE(there.bytes_received, large.nbytes());
  EXPECT_GE(here.messages_sent, 16U);
  EXPECT_EQ(here.peers, 1U);
  EXPECT_EQ(here.contexts, 1U);
  EXPECT_EQ(here.references_held, 1U);
  EXPECT_EQ(there.references_owned, 1U);
  EXPECT_GE(here.threads, 1U);
  EXPECT_THAT(to_string(here), HasSubstr("calls: 16 (mean "));
}

TEST(Metrics, N26_CallsThatWereCancelledDoNotCountAsFailed) {
  Registry registry;
  registry.add(fail, [] { throw std::runtime_error("no"); });
  registry.add(wait_until_cancelled, [] {
    while (!cancelled()) std::this_thread::sleep_for(1ms);
  });
  testing::Cluster cluster(2, registry);
  const Peer peer = cluster[0].peer(1);
  for (int i = 0; i < 3; ++i) {
    const Future<void> future = peer.call(wait_until_cancelled);
    future.cancel();
    EXPECT_THROW(future.get(), CancelledError);
  }
  EXPECT_THROW(peer.call(fail).get(), RemoteError);
  const Metrics metrics = cluster[0].metrics();
  EXPECT_EQ(metrics.calls_failed, 1U);
  EXPECT_EQ(metrics.calls_cancelled, 3U);
  EXPECT_THAT(to_string(metrics), HasSubstr("1 failed, 3 cancelled"));
}

}  // namespace
}  // namespace gradwire
