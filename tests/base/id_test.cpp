#include "gradwire/base/id.h"

#include <set>

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(Incarnation, IsNewEachTimeAndNeverNone) {
  std::set<Incarnation> seen;
  for (int i = 0; i < 1000; ++i) {
    const Incarnation incarnation = make_incarnation();
    EXPECT_NE(incarnation, Incarnation::none);
    EXPECT_TRUE(seen.insert(incarnation).second);
  }
}

TEST(Incarnation, IsSixteenHexadecimalDigits) { EXPECT_EQ(to_string(Incarnation{0xab}), "00000000000000ab"); }

TEST(Id, TellsWhoMadeIt) {
  const Id id{Incarnation{1}, 2};
  EXPECT_EQ(id, (Id{Incarnation{1}, 2}));
  EXPECT_NE(id, (Id{Incarnation{2}, 2}));
  EXPECT_NE(std::hash<Id>{}(id), std::hash<Id>{}(Id{Incarnation{1}, 3}));
}

}  // namespace
}  // namespace gradwire
