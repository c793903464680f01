// A Peer: what it keeps, and what it says when its own worker is gone.
#include "gradwire/rpc/peer.h"

#include <optional>

#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;

constexpr Function<int(int)> echo{"echo"};
constexpr Function<void()> keep_a_peer{"keep_a_peer"};

TEST(Peer, F2_MadeInAFunctionKeepsItsWorkerAndSaysThatItHasLeft) {
  std::optional<Peer> kept;
  Registry registry;
  registry.add(echo, [](int x) { return x; });
  registry.add(keep_a_peer, [&kept] { kept = Worker::current().peer("worker0"); });
  Cluster cluster(2, registry);
  cluster[0].peer(1).call(keep_a_peer).get();
  EXPECT_EQ(kept->call(echo, 1).get(), 1);

  std::unique_ptr<Worker> worker1 = cluster.take("worker1");
  const std::weak_ptr<WorkerCore> core = WorkerAccess::core(*worker1).weak_from_this();
  worker1.reset();
  ASSERT_FALSE(testing::eventually([&] { return core.expired(); }, 300ms)) << "the Peer's worker is destroyed";
  try {
    (void)kept->call(echo, 2);
    ADD_FAILURE() << "no error";
  } catch (const InvalidArgumentError& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("worker1"), std::string::npos) << error.what();
  }
  kept.reset();
  EXPECT_TRUE(testing::eventually([&] { return core.expired(); })) << "nothing else keeps it";
}

}  // namespace
}  // namespace gradwire
