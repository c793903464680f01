// Which link a session uses, on a simulated network: rules L1-L5, and who is turned away.
#include <gmock/gmock.h>

#include "tests/support/net_world.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Session, L1_DialsAgainWhenItsLinkBreaksEvenWithNothingToSend) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.send(a, b, "x");
  world.run_until([&] { return world.linked(a, b) && world.session(a, b)->statistics().held_bytes == 0; });
  const uint64_t links = world.session(b, a)->statistics().links;
  world.network.break_links("a", "b");
  world.loop->run_for(1s);
  EXPECT_TRUE(world.linked(a, b));
  EXPECT_GT(world.session(b, a)->statistics().links, links);
}

TEST(Session, L1_SimultaneousDialsEndInOneLink) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    NetWorld world(seed);
    world.network.set_delay([&] { return net::Duration(world.loop->random()() % 1000); });
    Node a = world.node("a"), b = world.node("b");
    world.send(a, b, "from a");
    world.send(b, a, "from b");
    ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 1 && world.received(a, b).size() == 1; }))
        << seed;
    world.loop->run_for(1s);
    EXPECT_TRUE(world.linked(a, b)) << seed;
    EXPECT_LE(world.session(a, b)->statistics().dials + world.session(b, a)->statistics().dials, 3U) << seed;
  }
}

TEST(Session, L1_ADialWithoutAnAnswerIsGivenUpAfterATimerThatBacksOff) {
  NetWorld world;
  Node a = world.node("a", {.peer_timeout = 80s});
  RawPeer silent(world, "silent");
  auto session = a.endpoint->session(silent.record);
  std::vector<net::Time> dials;
  for (size_t count = 1; count <= 3; ++count) {
    ASSERT_TRUE(world.run_until([&] { return silent.accepted.size() == count; }, 60s));
    dials.push_back(world.loop->now());
  }
  EXPECT_TRUE(silent.accepted[0]->closed);
  EXPECT_TRUE(silent.accepted[1]->closed);
  EXPECT_GT(2 * (dials[2] - dials[1]), 3 * (dials[1] - dials[0]));
}

// Every dial fails at once.
class FailingTransport : public net::Transport {
 public:
  explicit FailingTransport(std::shared_ptr<net::Loop> loop) : loop_(std::move(loop)) {}
  void listen(net::Record&, std::function<void(std::shared_ptr<net::Link>)>) override {}
  void dial(const net::Record&, std::function<void(net::DialResult)> done) override {
    loop_->post([done = std::move(done)] {
      done({.outcome = net::DialOutcome::failed, .link = nullptr, .why = "no link for a test"});
    });
  }
  void close() override {}

 private:
  const std::shared_ptr<net::Loop> loop_;
};

TEST(Session, L1_WhoAsksForADialDuringTheBackOffStartsNone) {
  NetWorld world;
  Node a = world.node("a", {}, make_incarnation(), std::make_shared<FailingTransport>(world.loop));
  net::Record nobody;
  nobody.name = "nobody";
  nobody.incarnation = make_incarnation();
  auto session = a.endpoint->session(nobody);
  const auto dials = [&] { return session->statistics().dials; };
  ASSERT_TRUE(world.run_until([&] { return dials() == 4; }, 1s));
  // The fourth has failed after this, and the next one is 80 ms away.
  for (int i = 0; i < 10; ++i) {
    world.loop->run_for(1ms);
    session->dial();
    EXPECT_EQ(dials(), 4U);
  }
  world.loop->run_for(100ms);
  EXPECT_EQ(dials(), 5U);
}

TEST(Session, L3_ALinkOfLowerRankIsRefusedWithoutEffect) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto first = peer.dial(a.endpoint->record());
  first->write(net::encode_hello(peer.hello(a, 7)));
  ASSERT_TRUE(world.run_until([&] { return first->find(net::FrameKind::hello) != nullptr; }));
  first->write(RawPeer::message(1, "one"));
  auto second = peer.dial(a.endpoint->record());
  second->write(net::encode_hello(peer.hello(a, 7)));
  ASSERT_TRUE(world.run_until([&] { return second->find(net::FrameKind::refused) != nullptr; }));
  EXPECT_EQ(second->find(net::FrameKind::refused)->number, 7U);
  first->write(RawPeer::message(2, "two"));
  ASSERT_TRUE(world.run_until([&] { return a.recorder->heads[peer.record.incarnation].size() == 2; }));
  EXPECT_FALSE(first->closed);
}

TEST(Session, L3_ALinkOfHigherRankReplacesTheCurrentOne) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto first = peer.dial(a.endpoint->record());
  first->write(net::encode_hello(peer.hello(a, 1)));
  first->write(RawPeer::message(1, "one"));
  ASSERT_TRUE(world.run_until([&] { return a.recorder->heads[peer.record.incarnation].size() == 1; }));
  auto second = peer.dial(a.endpoint->record());
  net::Hello hello = peer.hello(a, 2);
  second->write(net::encode_hello(hello));
  ASSERT_TRUE(world.run_until([&] { return second->find(net::FrameKind::hello) != nullptr && first->closed; }));
  EXPECT_EQ(net::decode_hello(second->frames[0].second).last_handled, 1U)
      << "L2: sampled after the old link was stopped";
  // The old link is stopped (L2): what it still brings is not handled.
  first->write(RawPeer::message(2, "late"));
  second->write(RawPeer::message(2, "two"));
  ASSERT_TRUE(world.run_until([&] { return a.recorder->heads[peer.record.incarnation].size() == 2; }));
  EXPECT_THAT(a.recorder->heads[peer.record.incarnation], ElementsAre("one", "two"));
}

TEST(Session, L2_NothingOfTheOldLinkIsHandledOnceHelloIsSampled) {
  int dropped = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    NetWorld world(seed);
    world.network.set_delay([&] { return net::Duration(world.loop->random()() % 100); });
    Node a = world.node("a");
    RawPeer peer(world, "peer");
    const auto& handled = a.recorder->heads[peer.record.incarnation];
    auto first = peer.dial(a.endpoint->record());
    first->write(net::encode_hello(peer.hello(a, 1)));
    first->write(RawPeer::message(1, "1"));
    ASSERT_TRUE(world.run_until([&] { return handled.size() == 1; }));
    // The next message and the next link race: whether it is handled is told by the Hello that answers, for good.
    auto second = peer.dial(a.endpoint->record());
    first->write(RawPeer::message(2, "2"));
    second->write(net::encode_hello(peer.hello(a, 2)));
    ASSERT_TRUE(world.run_until([&] { return second->find(net::FrameKind::hello) != nullptr; }));
    const uint64_t last = net::decode_hello(second->frames[0].second).last_handled;
    dropped += last == 1;
    world.loop->run_for(1s);
    ASSERT_EQ(handled.size(), last) << "seed " << seed;
    second->write(RawPeer::message(last + 1, "next"));
    ASSERT_TRUE(world.run_until([&] { return handled.size() == last + 1; })) << "seed " << seed;
  }
  EXPECT_GT(dropped, 10) << "the race was not run";
  EXPECT_LT(dropped, 290);
}

TEST(Session, L2_WhatWasReadBehindTheFrameThatStoppedTheLinkIsDropped) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  const auto& handled = a.recorder->heads[peer.record.incarnation];
  auto first = peer.dial(a.endpoint->record());
  first->write(net::encode_hello(peer.hello(a)));
  ASSERT_TRUE(world.run_until([&] { return first->find(net::FrameKind::hello) != nullptr; }));
  // A segment without its descriptor: the link is to be re-made without them.
  first->write(RawPeer::frame(net::FrameKind::segments, std::string("\1\0\0\0", 4) + std::string(16, 's')) +
               RawPeer::message(1, "one"));
  auto second = peer.dialled();
  EXPECT_TRUE(world.run_until([&] { return first->closed; }));
  EXPECT_THAT(handled, IsEmpty());
  EXPECT_EQ(net::decode_hello(second->frames[0].second).last_handled, 0U);
  second->write(net::encode_hello(peer.hello(a)));
  second->write(RawPeer::message(1, "one"));
  ASSERT_TRUE(world.run_until([&] { return handled.size() == 1; }));
  EXPECT_THAT(a.recorder->gone, IsEmpty());
}

TEST(Session, L3_AHelloForAnotherIncarnationIsAnsweredWithNotMe) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto connection = peer.dial(a.endpoint->record());
  net::Hello hello = peer.hello(a);
  hello.yours = Incarnation{42};
  connection->write(net::encode_hello(hello));
  ASSERT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::not_me) != nullptr; }));
  EXPECT_EQ(connection->find(net::FrameKind::not_me)->number, 0U) << "W2: a stranger is not told who lives here";
  EXPECT_THAT(a.endpoint->sessions(), IsEmpty());
}

TEST(Session, L4_SendsNothingButHelloUntilItHasTheAcceptors) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  a.endpoint->session(peer.record)->send({.type = plain, .head = "early"}, net::Admission::always);
  auto connection = peer.dialled();
  world.loop->run_for(100ms);
  EXPECT_THAT(connection->frames, SizeIs(1));
  EXPECT_EQ(connection->frames[0].first.kind, net::FrameKind::hello);
  connection->write(net::encode_hello(peer.hello(a)));
  ASSERT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::message) != nullptr; }));
}

TEST(Session, L4_AfterRefusedItWaitsForThePeersLinkUntilItsTimerEnds) {
  NetWorld world;
  Node a = world.node("a", {.peer_timeout = 8s});
  RawPeer peer(world, "peer");
  auto session = a.endpoint->session(peer.record);
  auto connection = peer.dialled();
  connection->write(net::encode_plain(net::FrameKind::refused, 5));
  world.loop->run_for(300ms);
  EXPECT_THAT(peer.accepted, SizeIs(1)) << "it waits";
  ASSERT_TRUE(world.run_until([&] { return peer.accepted.size() == 2 && !peer.accepted[1]->frames.empty(); }, 5s));
  EXPECT_EQ(net::decode_hello(peer.accepted[1]->frames[0].second).attempt, 6U)
      << "L1: above the attempt that refused it";
}

TEST(Session, L4_AConnectionWithoutHelloIsClosedAfterTheTimer) {
  NetWorld world;
  Node a = world.node("a", {.peer_timeout = 8s});
  RawPeer peer(world, "peer");
  auto connection = peer.dial(a.endpoint->record());
  world.loop->run_for(500ms);
  EXPECT_FALSE(connection->closed);
  ASSERT_TRUE(world.run_until([&] { return connection->closed; }, 2s));
}

TEST(Session, L5_ALinkSilentAlthoughPingedIsBroken) {
  NetWorld world;
  Node a = world.node("a", {.peer_timeout = 8s}), b = world.node("b", {.peer_timeout = 8s});
  world.link(a, b);
  const uint64_t links = world.session(a, b)->statistics().links;
  world.network.break_links("a", "b", net::Noticed::by_neither);
  world.send(a, b, "into the void");
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }, 7s));
  EXPECT_GT(world.session(a, b)->statistics().links, links);
  EXPECT_THAT(a.recorder->gone, IsEmpty());
  EXPECT_THAT(b.recorder->gone, IsEmpty());
}

TEST(Session, L5_AnIdleLinkIsKeptAliveByPings) {
  NetWorld world;
  Node a = world.node("a", {.peer_timeout = 8s}), b = world.node("b", {.peer_timeout = 8s});
  world.send(a, b, "x");
  world.loop->run_for(10min);
  EXPECT_TRUE(world.linked(a, b));
  EXPECT_EQ(world.session(a, b)->statistics().links, 1U);
}

TEST(Session, AnotherVersionIsToldSoInASentence) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto connection = peer.dial(a.endpoint->record());
  net::Hello hello = peer.hello(a);
  hello.version = 9;
  connection->write(net::encode_hello(hello));
  ASSERT_TRUE(world.run_until([&] { return connection->closed; }));
  ASSERT_NE(connection->find(net::FrameKind::incompatible), nullptr);
  EXPECT_EQ(connection->frames[0].second,
            "this worker speaks version 1 of the protocol, the caller version 9: use one release on both");
}

TEST(Session, L3_AReplayedConnectionIsRefused) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.link(a, b);
  world.network.replay("a", "b");
  world.network.replay("a", "b");
  world.loop->run_for(1s);
  world.send(a, b, "y");
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }));
  EXPECT_THAT(world.received(b, a), ElementsAre("x", "y"));
}

}  // namespace
}  // namespace gradwire::testing
