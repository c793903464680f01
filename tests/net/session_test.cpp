// What a session promises, on a simulated network: S1-S4.
#include "gradwire/net/session.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/support/net_world.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Session, DeliversMessagesInOrderBothWays) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  for (int i = 0; i < 100; ++i) {
    world.send(a, b, std::to_string(i));
    world.send(b, a, std::to_string(i));
  }
  ASSERT_TRUE(
      world.run_until([&] { return world.received(b, a).size() == 100 && world.received(a, b).size() == 100; }));
  EXPECT_EQ(world.received(b, a), numbers(100));
  EXPECT_EQ(world.received(a, b), numbers(100));
}

TEST(Session, C7_S1_ResumesAfterABrokenLinkWithoutLossOrRepetition) {
  NetWorld world;
  world.network.set_delay([&] { return net::Duration(world.loop->random()() % 1000); });
  Node a = world.node("a"), b = world.node("b");
  for (int i = 0; i < 100; ++i) {
    world.send(a, b, std::to_string(i));
    if (i % 10 == 5) world.network.break_links("a", "b");
    world.loop->run_for(300ns);
  }
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 100; }));
  world.loop->run_for(1s);
  EXPECT_EQ(world.received(b, a), numbers(100));
  EXPECT_GT(world.session(a, b)->statistics().links, 3U);
}

TEST(Session, S3_KeepsMemoryBoundedTowardsAPeerThatDoesNotRead) {
  NetWorld world;
  Node a = world.node("a", {.max_outgoing_bytes = 10000}), b = world.node("b");
  world.send(a, b, "first");
  world.run_until([&] { return world.linked(a, b); });
  world.network.cut("a", "b");
  uint64_t place = 0;
  for (int i = 0; i < 100; ++i)
    place = world.session(a, b)->send({.type = plain, .head = std::string(1000, 'x')}, net::Admission::waits_for_room);
  EXPECT_LE(world.session(a, b)->statistics().held_bytes, 10000U);
  EXPECT_FALSE(world.session(a, b)->wait_for_room(place, std::chrono::steady_clock::now()));
  world.network.heal("a", "b");
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 101; }));
  EXPECT_TRUE(world.session(a, b)->wait_for_room(place, std::chrono::steady_clock::now()));
  world.loop->run_for(1s);
  EXPECT_EQ(world.session(a, b)->statistics().held_bytes, 0U);
}

TEST(Session, S3_RepliesAndControlMessagesDoNotWaitForRoom) {
  NetWorld world;
  Node a = world.node("a", {.max_outgoing_bytes = 100}), b = world.node("b");
  world.network.cut("a", "b");
  for (int i = 0; i < 10; ++i) world.send(a, b, std::string(100, 'x'), net::Admission::waits_for_room);
  world.send(a, b, "control", net::Admission::always);
  world.network.heal("a", "b");
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 11; }));
  EXPECT_EQ(world.received(b, a)[1], "control");
}

TEST(Session, S3_AMessageLargerThanTheLimitGoesAlone) {
  NetWorld world;
  Node a = world.node("a", {.max_outgoing_bytes = 100}), b = world.node("b");
  world.send(a, b, std::string(5000, 'x'), net::Admission::waits_for_room);
  world.send(a, b, "small", net::Admission::waits_for_room);
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }));
}

// A world's loop that has no memory for timers while a test says so.
class LoopWithoutTimers : public net::Loop {
 public:
  explicit LoopWithoutTimers(std::shared_ptr<SimulatedLoop> loop) : loop_(std::move(loop)) {}
  net::Time now() const override { return loop_->now(); }
  void post(Task task) override { loop_->post(std::move(task)); }
  void after(net::Duration delay, Task task) override {
    if (fails) throw std::bad_alloc();
    loop_->after(delay, std::move(task));
  }
  bool fails = false;

 private:
  const std::shared_ptr<SimulatedLoop> loop_;
};

TEST(Session, AcknowledgesAtOnceWhereThereIsNoMemoryForATimer) {
  NetWorld world;
  const auto loop = std::make_shared<LoopWithoutTimers>(world.loop);
  const auto recorder = std::make_shared<Recorder>();
  const Node a{recorder, net::Endpoint::open({.loop = loop,
                                              .transport = world.network.transport(),
                                              .budget = std::make_shared<net::SegmentBudget>(0),
                                              .handler = recorder},
                                             {.name = "a", .incarnation = make_incarnation()}, {})};
  const Node b = world.node("b");
  world.link(b, a);
  const auto acknowledged = [&] { return world.session(b, a)->statistics().held_bytes == 0; };
  ASSERT_TRUE(world.run_until(acknowledged));
  for (const bool fails : {true, false, true}) {
    loop->fails = fails;
    world.send(b, a, "y");
    EXPECT_TRUE(world.run_until(acknowledged, 1s)) << "a timer that was not made is not waited for";
    EXPECT_NO_THROW(
        world.session(a, b)->send({.type = plain, .head = "z"}, net::Admission::always, net::Writing::later));
  }
  loop->fails = false;
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 3; }, 1s));
  EXPECT_EQ(world.received(a, b).size(), 4U);
  EXPECT_EQ(world.session(b, a)->statistics().links, 1U);
}

TEST(Session, N3_AMessageBeyondTheReceiversBoundIsRefusedBeforeAByteIsCopied) {
  NetWorld world;
  Node a = world.node("a", {.inbox = {.largest_message = 1000000}}), b = world.node("b");
  const auto send = [&](const at::Tensor& tensor) {
    world.session(a, b)->send({.type = plain, .payload = {.tensors = {tensor}}}, net::Admission::always);
  };
  // Far more than any machine has: copying it would fail in another way.
  const at::Tensor endless = at::ones({1}).expand({int64_t{1} << 60});
  for (const at::Tensor& tensor : {endless, at::ones({1}).expand({1000000}), at::ones({1, 300000}).to_sparse(),
                                   at::ones({1, 300000}).to_sparse_csr()})
    try {
      send(tensor);
      ADD_FAILURE() << "no error";
    } catch (const OverloadedError& error) {
      EXPECT_EQ(error.worker(), "b");
    }
  EXPECT_EQ(world.session(a, b)->statistics().sent, 0U);
  EXPECT_EQ(world.session(a, b)->statistics().segments_lent, 0U);
  send(at::ones({250000}));  // exactly the bound
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 1; }));
}

TEST(Session, S3_RefusesAMessageBeyondItsBoundAndLives) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b", {.inbox = {.largest_message = 1000000}});
  world.session(a, b)->send({.type = plain, .payload = {.tensors = {at::ones({1000, 1000})}}}, net::Admission::always);
  world.send(a, b, "next");
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }));
  EXPECT_THAT(b.recorder->refusals[0], HasSubstr("4000000 bytes; 1000000 is the most"));
  EXPECT_EQ(b.recorder->arrivals[a.incarnation()][0], nullptr);
  EXPECT_EQ(b.recorder->refusals[1], "");
  world.loop->run_for(1s);
  EXPECT_EQ(world.session(a, b)->statistics().held_bytes, 0U) << "a refused bulk is acknowledged as finished (L7)";
  EXPECT_EQ(world.session(a, b)->statistics().links, 1U) << "its chunks are dropped (L7)";
}

TEST(Session, S3_WhatIsIncompleteIsBoundedAndWhatIsBeyondIsRefused) {
  NetWorld world;
  world.network.set_delay([] { return net::Duration(1000); });
  Node a = world.node("a"), b = world.node("b", {.inbox = {.unfinished_bytes = 3000000}});
  const auto send = [&](const at::Tensor& tensor) {
    world.session(a, b)->send({.type = plain, .payload = {.tensors = {tensor}}}, net::Admission::always);
  };
  const at::Tensor beyond = at::ones({1000, 1000}), alone = at::ones({1000, 1001});
  send(alone);  // larger than the bound: it comes alone
  send(beyond);
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }));
  EXPECT_EQ(b.recorder->refusals[0], "");
  EXPECT_THAT(b.recorder->refusals[1], HasSubstr("3000000 is the most"));
  auto arrival = b.recorder->arrivals[a.incarnation()][0];
  ASSERT_TRUE(world.run_until([&] { return arrival->settled(); }));
  EXPECT_TRUE(arrival->take().tensors.at(0).equal(alone));
  send(beyond);
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 3; }));
  EXPECT_EQ(b.recorder->refusals[2], "") << "there is room again";
}

TEST(Session, S4_ALargeTransferDoesNotHoldUpSmallMessages) {
  NetWorld world;
  world.network.set_delay([] { return net::Duration(1000); });
  Node a = world.node("a"), b = world.node("b");
  const at::Tensor large = at::arange(1536 * 1024);  // 12 MB of int64: less than the largest frame
  world.session(a, b)->send({.type = plain, .head = "large", .payload = {.tensors = {large}}}, net::Admission::always);
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 1; }));
  auto arrival = b.recorder->arrivals[a.incarnation()][0];
  world.send(a, b, "small");  // its bytes are being written
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }));
  EXPECT_FALSE(arrival->settled()) << "the small message arrived while the large one is still under way";
  ASSERT_TRUE(world.run_until([&] { return arrival->settled(); }));
  EXPECT_TRUE(arrival->take().tensors.at(0).equal(large));
  world.loop->run_for(1s);
  EXPECT_EQ(world.session(a, b)->statistics().held_bytes, 0U);
}

TEST(Session, C13_SendsOnlyTheElementsOfAView) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  const at::Tensor base = at::arange(1000 * 1000).view({1000, 1000});  // 8 MB
  for (const at::Tensor& view : {base[7], base.select(1, 7), base.narrow(1, 10, 100)}) {
    world.session(a, b)->send({.type = plain, .payload = {.tensors = {view}}}, net::Admission::always);
    EXPECT_LT(world.session(a, b)->statistics().held_bytes, view.nbytes() + 500);
    const size_t count = world.received(b, a).size() + 1;
    ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == count; }));
    auto arrival = b.recorder->arrivals[a.incarnation()].back();
    ASSERT_TRUE(world.run_until([&] { return arrival->settled(); }));
    const at::Tensor arrived = arrival->take().tensors.at(0);
    EXPECT_TRUE(arrived.equal(view));
    EXPECT_EQ(arrived.storage().nbytes(), view.nbytes());
    ASSERT_TRUE(world.run_until([&] { return world.session(a, b)->statistics().held_bytes == 0; }));
  }
}

TEST(Session, S4_TheTensorsDescriptionsAreThereBeforeTheirBytes) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  std::vector<int64_t> sizes;
  b.recorder->when_arrived = [&](net::Session&, net::Delivery& delivery) {
    EXPECT_FALSE(delivery.arrival->settled());
    const auto& seen = delivery.tensors().at(0).sizes;
    sizes.assign(seen.begin(), seen.end());
  };
  world.session(a, b)->send({.type = plain, .payload = {.tensors = {at::ones({1000, 1000})}}}, net::Admission::always);
  ASSERT_TRUE(world.run_until([&] { return !sizes.empty(); }));
  EXPECT_THAT(sizes, ElementsAre(1000, 1000));
}

TEST(Session, S2_AProcessThatWasStoppedDoesNotTakeItsOwnSilenceForTheOthersDeath) {
  NetWorld world;
  Node a = world.node("a", {.peer_timeout = 8s}), b = world.node("b", {.peer_timeout = 1000s});
  world.link(a, b);
  world.loop->sleep(100s);  // both stand still: no task of either runs
  world.send(a, b, "y");
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }, 5s));
  EXPECT_THAT(a.recorder->gone, IsEmpty());
}

TEST(Session, S2_AProcessThatWasStoppedStillNoticesADeathInTime) {
  // What the other said is on its way when it is stopped: so many steps further each time.
  for (int steps = 0; steps < 10; ++steps) {
    NetWorld world;
    Node a = world.node("a", {.peer_timeout = 8s}), b = world.node("b", {.peer_timeout = 1000s});
    world.link(a, b);
    world.send(b, a, "y");
    for (int i = 0; i < steps && world.received(a, b).empty(); ++i) world.loop->step();
    world.loop->sleep(100s);
    ASSERT_TRUE(world.run_until([&] { return world.received(a, b).size() == 1; }, 5s));
    world.network.cut("a", "b");
    EXPECT_TRUE(world.run_until([&] { return !a.recorder->gone.empty(); }, 20s)) << steps;
  }
}

TEST(Session, S3_AnswersToAPeerThatAsksAndDoesNotReadAreBounded) {
  NetWorld world;
  world.network.set_capacity(size_t{1} << 20U);
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto connection = peer.dial(a.endpoint->record());
  connection->write(net::encode_hello(peer.hello(a)));
  ASSERT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::hello) != nullptr; }));
  auto session = a.endpoint->find(peer.record.incarnation);
  connection->channel->link().want_readable(false);
  std::string pings;
  for (int i = 0; i < 4000; ++i) pings += net::encode_plain(net::FrameKind::ping);
  int written = 0;
  for (; written < 100 && session->statistics().linked; ++written) {
    connection->write(pings);
    world.loop->run_for(1ms);
  }
  EXPECT_LT(written, 40) << "the link was given up after some 2 MB";
}

}  // namespace
}  // namespace gradwire::testing
