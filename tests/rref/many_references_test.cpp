// More references than one message takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/thrown.h"
#include "tests/support/wait.h"

namespace gradwire {
namespace {

using testing::Cluster;
using testing::eventually;
using ::testing::HasSubstr;
using testing::thrown;

constexpr Function<int64_t(std::vector<RRef<int64_t>>)> count{"count"};
constexpr Function<int64_t(int64_t)> same{"same"};

Registry make_registry() {
  Registry registry;
  registry.add(count, [](const std::vector<RRef<int64_t>>& all) { return static_cast<int64_t>(all.size()); });
  registry.add(same, [](int64_t x) { return x; });
  return registry;
}

TEST(ManyReferences, InOneMessageAreRefusedInWordsAndTheSessionLives) {
  Cluster cluster(2, make_registry());
  const RRef<int64_t> one = cluster[0].share(int64_t{1});
  const auto call = [&](size_t number) {
    return cluster[0].peer(1).call(count, std::vector<RRef<int64_t>>(number, one)).get();
  };
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { call(100'001); }), HasSubstr("Send fewer at once"));
  EXPECT_EQ(call(100'000), 100'000);
}

TEST(ManyReferences, R2_DroppedAtOnceAreAllReleased) {
  Cluster cluster(2, make_registry());
  std::vector<RRef<int64_t>> all;
  for (int64_t i = 0; i < 5000; ++i) all.push_back(cluster[0].peer(1).remote(same, i));
  EXPECT_EQ(all.back().to_here(), 4999);
  all.clear();
  EXPECT_TRUE(eventually([&] { return cluster[1].debug().empty() && cluster[0].debug().empty(); }));
}

}  // namespace
}  // namespace gradwire
