// The lines of the charts that examples/digits draws.
#include "../../examples/digits/ticks.h"

#include <cmath>

#include <gtest/gtest.h>

namespace digits {
namespace {

bool is_round(double step) {
  const double digit = step / std::pow(10, std::floor(std::log10(step) + 1e-9));
  return std::abs(digit - 1) < 1e-9 || std::abs(digit - 2) < 1e-9 || std::abs(digit - 5) < 1e-9;
}

TEST(Ticks, StepsAreOneTwoOrFiveTimesAPowerOfTenReachTheHighestValueAndAreAtMostAsManyAsAllowed) {
  for (double highest = 1e-6; highest < 1e7; highest *= 1.0137)
    for (const int most : {1, 2, 5, 8}) {
      const Ticks found = ticks(highest, most);
      EXPECT_TRUE(is_round(found.step)) << highest << ": " << found.step;
      EXPECT_GE(found.last(), highest * (1 - 1e-8));
      EXPECT_LT(found.last() - found.step, highest) << "the last step is not needed";
      EXPECT_GE(found.count, 1);
      EXPECT_LE(found.count, most);
    }
}

TEST(Ticks, TheSmallestStepThatIsAllowedIsTaken) {
  EXPECT_EQ(ticks(2.33, 5).step, 0.5);
  EXPECT_EQ(ticks(2.33, 5).count, 5);
  EXPECT_EQ(ticks(674, 8, true).step, 100);
  EXPECT_EQ(ticks(5, 5).step, 1);  // the highest value lies on the last line
  EXPECT_EQ(ticks(0.3, 3).step, 0.1);
  EXPECT_EQ(ticks(0.3, 3).count, 3);
  EXPECT_EQ(ticks(5.01, 5).step, 2);
}

TEST(Ticks, AsManyDecimalsAsTheStepNeeds) {
  EXPECT_EQ(ticks(2.33, 5).decimals, 1);
  EXPECT_EQ(ticks(0.02, 5).decimals, 3);
  EXPECT_EQ(ticks(9, 5).decimals, 0);
  EXPECT_EQ(ticks(674, 5).decimals, 0);
}

TEST(Ticks, WholeStepsAreNotLessThanOne) {
  EXPECT_EQ(ticks(1, 8, true).step, 1);
  EXPECT_EQ(ticks(3, 8, true).step, 1);
  EXPECT_EQ(ticks(3, 8).step, 0.5);
}

}  // namespace
}  // namespace digits
