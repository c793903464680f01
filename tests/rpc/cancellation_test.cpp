// What a function that was cancelled sees of it, whenever it asks.
#include "gradwire/rpc/cancellation.h"

#include <atomic>

#include <gtest/gtest.h>

#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using testing::eventually;

TEST(Cancellation, AStopTokenThatIsTakenAfterItIsStopped) {
  Cancellation cancellation;
  cancellation.request();
  EXPECT_TRUE(cancellation.token().stop_requested());
  EXPECT_TRUE(cancellation.token().stop_requested()) << "and so is every later one";
}

TEST(Cancellation, AFunctionMayTakeItsFirstStopTokenAfterItWasCancelled) {
  constexpr Function<void()> takes_it_late{"takes_it_late"};
  std::atomic<bool> entered = false, returned = false, was_cancelled = false, called_back = false;
  Registry registry;
  registry.add(takes_it_late, [&] {
    entered = true;
    was_cancelled = eventually([] { return cancelled(); });
    {
      const std::stop_callback callback(stop_token(), [&] { called_back = true; });
    }
    returned = true;
  });
  testing::Cluster cluster(2, registry);
  const Future<void> call = cluster[0].peer(1).call(takes_it_late);
  ASSERT_TRUE(eventually([&] { return entered.load(); }));
  call.cancel();
  ASSERT_TRUE(eventually([&] { return returned.load(); }));
  EXPECT_TRUE(was_cancelled);
  EXPECT_TRUE(called_back) << "at once: it is stopped already";
}

}  // namespace
}  // namespace gradwire
