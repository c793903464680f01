#include "gradwire/net/blocks.h"

#include <gtest/gtest.h>

#include "gradwire/testing/simulated_loop.h"

namespace gradwire::net {
namespace {

TEST(Blocks, AreUsedAgainAndGivenUpWhenIdle) {
  auto loop = std::make_shared<testing::SimulatedLoop>(1);
  auto budget = std::make_shared<SegmentBudget>(2U << 20U);
  auto blocks = std::make_shared<Blocks>(loop, budget);
  const void* first;
  {
    const c10::DataPtr block = blocks->take(1U << 20U);
    first = block.get();
  }
  EXPECT_EQ(blocks->take(1U << 20U).get(), first);
  EXPECT_FALSE(budget->take(2U << 20U)) << "it is kept";
  loop->run_for(std::chrono::seconds(30));
  EXPECT_TRUE(budget->take(2U << 20U)) << "it was given up";
  EXPECT_NE(blocks->take(1U << 20U).get(), nullptr) << "past the bound: ordinary memory";
}

}  // namespace
}  // namespace gradwire::net
