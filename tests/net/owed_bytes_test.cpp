// What a peer leaves unread of replies, and who is told when it has read them.
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/support/net_world.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;

constexpr size_t bound = 1'000'000;

// Two workers with a session, and the network between them cut.
struct Cut {
  Cut() {
    world.link(a, b);
    world.network.cut("a", "b");
  }
  void send(net::Admission admission, int64_t bytes) const {
    session->send({.type = plain, .payload = {.tensors = {at::ones({bytes}, at::kByte)}}}, admission);
  }
  NetWorld world;
  Node a = world.node("a", {.max_outgoing_bytes = bound});
  Node b = world.node("b");
  std::shared_ptr<net::Session> session = world.session(a, b);
  int told = 0;
};

TEST(OwedBytes, W8_RepliesCountUntilTheyAreReadAndRequestsDoNot) {
  Cut cut;
  cut.send(net::Admission::waits_for_room, 2 * bound);
  EXPECT_FALSE(cut.session->leaves_much_unread());
  EXPECT_FALSE(cut.session->defer_until_read([&] { ++cut.told; }));
  cut.send(net::Admission::always, bound / 2);
  EXPECT_FALSE(cut.session->leaves_much_unread());
  cut.send(net::Admission::always, bound / 2);
  EXPECT_TRUE(cut.session->leaves_much_unread());
  EXPECT_TRUE(cut.session->defer_until_read([&] { ++cut.told; }));
  cut.world.loop->run_for(1s);
  EXPECT_EQ(cut.told, 0);
  cut.world.network.heal("a", "b");
  EXPECT_TRUE(cut.world.run_until([&] { return cut.told == 1; }));
  EXPECT_TRUE(cut.world.run_until([&] { return cut.session->statistics().held_bytes == 0; }));
  cut.world.loop->run_for(1s);
  EXPECT_EQ(cut.told, 1);
  EXPECT_FALSE(cut.session->leaves_much_unread());
}

TEST(OwedBytes, W8_WhoWaitsIsToldWhenThePeerIsGone) {
  Cut cut;
  cut.send(net::Admission::always, 2 * bound);
  EXPECT_TRUE(cut.session->defer_until_read([&] { ++cut.told; }));
  EXPECT_TRUE(cut.world.run_until([&] { return cut.session->ended(); }));
  EXPECT_TRUE(cut.world.run_until([&] { return cut.told == 1; }, 1s));
  EXPECT_FALSE(cut.session->defer_until_read([&] { ++cut.told; }));
  EXPECT_FALSE(cut.session->leaves_much_unread());
}

}  // namespace
}  // namespace gradwire::testing
