// Log lines that come in masses.
#include "gradwire/net/repeated_log.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "gradwire/testing/simulated_loop.h"

namespace gradwire::net {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

struct Lines {
  std::vector<std::string> written;
  std::shared_ptr<RepeatedLog> log = RepeatedLog::make([this](const std::string& line) { written.push_back(line); });
};

TEST(RepeatedLog, N13_WritesTheFirstOfEachKindAndThenCountsOnceAMinute) {
  testing::SimulatedLoop loop(1);
  Lines lines;
  for (int i = 0; i < 100; ++i) lines.log->add(loop, i % 2 == 0 ? "even" : "odd", std::to_string(i));
  EXPECT_THAT(lines.written, ElementsAre("even: 0", "odd: 1"));
  loop.run_for(59s);
  EXPECT_THAT(lines.written, SizeIs(2));
  loop.run_for(2s);
  EXPECT_THAT(lines.written, SizeIs(4));
  EXPECT_THAT(lines.written[2], AllOf(HasSubstr("even"), HasSubstr("49")));
  EXPECT_THAT(lines.written[3], AllOf(HasSubstr("odd"), HasSubstr("49")));
  loop.run_for(10min);
  EXPECT_THAT(lines.written, SizeIs(4)) << "nothing new, nothing to say";
  lines.log->add(loop, "even", "100");
  loop.run_for(1min);
  EXPECT_THAT(lines.written, SizeIs(5));
  EXPECT_THAT(lines.written[4], AllOf(HasSubstr("even"), HasSubstr("1")));
}

TEST(RepeatedLog, N13_SaysItsLastCountsWhenItEnds) {
  testing::SimulatedLoop loop(1);
  Lines lines;
  for (int i = 0; i < 8; ++i) lines.log->add(loop, "kind", "detail");
  lines.log.reset();
  EXPECT_THAT(lines.written, SizeIs(2));
  EXPECT_THAT(lines.written[1], AllOf(HasSubstr("kind"), HasSubstr("7")));
  loop.run_for(2min);
  EXPECT_THAT(lines.written, SizeIs(2));
}

TEST(RepeatedLog, N13_RemembersABoundedNumberOfKinds) {
  testing::SimulatedLoop loop(1);
  Lines lines;
  for (int i = 0; i < 5000; ++i) lines.log->add(loop, "kind " + std::to_string(i), "detail");
  EXPECT_THAT(lines.written, SizeIs(1000));
  EXPECT_LE(lines.log->kinds(), 1001U);
  loop.run_for(2min);
  EXPECT_THAT(lines.written, SizeIs(1001));
  EXPECT_THAT(lines.written.back(), HasSubstr("4000"));
}

}  // namespace
}  // namespace gradwire::net
