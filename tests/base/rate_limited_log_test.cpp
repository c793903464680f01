#include "gradwire/base/rate_limited_log.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

using namespace std::chrono_literals;

TEST(RateLimitedLog, W15_SaysOneLineASecondAndCountsTheRest) {
  RateLimitedLog log;
  const RateLimitedLog::Time start{};
  EXPECT_EQ(log.admit(start), "");
  int said = 0;
  for (int i = 1; i < 1000; ++i) said += log.admit(start + i * 1ms).has_value();
  EXPECT_EQ(said, 0);
  const std::optional<std::string> more = log.admit(start + 1s);
  ASSERT_TRUE(more);
  EXPECT_NE(more->find("999 more"), std::string::npos) << *more;
  EXPECT_EQ(log.admit(start + 2s), "") << "none were left out since";
}

}  // namespace
}  // namespace gradwire
