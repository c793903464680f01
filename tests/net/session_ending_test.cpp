// How a session ends, on a simulated network: rules L8 (death) and L9 (goodbye).
#include <ATen/ops/arange.h>
#include <gmock/gmock.h>

#include "tests/support/net_world.h"

namespace gradwire::testing {
namespace {

// Dials as TCP does at a host on which no one listens at the port, as long as a test says so.
class RefusingTransport : public net::Transport {
 public:
  RefusingTransport(NetWorld& world, const bool& refuses)
      : loop_(world.loop), within_(world.network.transport()), refuses_(refuses) {}
  void listen(net::Record& mine, std::function<void(std::shared_ptr<net::Link>)> accepted) override {
    within_->listen(mine, std::move(accepted));
  }
  void dial(const net::Record& peer, std::function<void(net::DialResult)> done) override {
    if (!refuses_) return within_->dial(peer, std::move(done));
    loop_->post(
        [done = std::move(done)] { done({.outcome = net::DialOutcome::unreachable, .why = "connection refused"}); });
  }
  void close() override { within_->close(); }

 private:
  const std::shared_ptr<net::Loop> loop_;
  const std::shared_ptr<net::Transport> within_;
  const bool& refuses_;
};

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Session, L8_DeathIsDeclaredOnceWhenTheAddressRefuses) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.link(a, b);
  const net::Record record = b.endpoint->record();
  b.endpoint->close();
  ASSERT_TRUE(world.run_until([&] { return a.recorder->gone.contains(record.incarnation); }, 1s));
  EXPECT_EQ(a.recorder->gone.at(record.incarnation).reason, GoneReason::died);
  try {
    a.endpoint->session(record)->send({.type = plain}, net::Admission::always);
    FAIL() << "sent to a dead worker";
  } catch (const PeerGoneError& error) {
    EXPECT_EQ(error.worker(), "b");
    EXPECT_THAT(error.what(), HasSubstr("b (rank -1"));
  }
}

TEST(Session, L8_APartitionLongerThanTheTimeoutIsDeathOnBothSidesAndTheOtherIsTold) {
  NetWorld world;
  Node a = world.node("a", {.peer_timeout = 8s}), b = world.node("b", {.peer_timeout = 100s});
  world.send(a, b, "x");
  world.run_until([&] { return world.received(b, a).size() == 1; });
  world.network.cut("a", "b");
  ASSERT_TRUE(world.run_until([&] { return !a.recorder->gone.empty(); }, 20s));
  EXPECT_EQ(a.recorder->gone.at(b.incarnation()).reason, GoneReason::died);
  EXPECT_THAT(b.recorder->gone, IsEmpty());
  world.send(b, a, "from the dead");
  world.network.heal("a", "b");
  // b was declared dead while it lives: it is fenced, and nothing it sent is delivered (S2).
  ASSERT_TRUE(world.run_until([&] { return !b.recorder->gone.empty(); }, 60s));
  EXPECT_EQ(b.recorder->gone.at(a.incarnation()).reason, GoneReason::fenced);
  EXPECT_THAT(world.received(a, b), IsEmpty());
}

TEST(Session, L8_ARestartedWorkerIsANewIncarnationAndTheOldOneIsDead) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.send(a, b, "to the first life");
  world.run_until([&] { return world.received(b, a).size() == 1; });
  const Incarnation old = b.incarnation();
  const net::Record old_record = b.endpoint->record();
  world.network.cut("a", "b");  // so that a does not see the refusal in between
  b.endpoint->close();
  Node again = world.node("b");
  world.network.heal("a", "b");
  ASSERT_TRUE(world.run_until([&] { return a.recorder->gone.contains(old); }, 60s));
  EXPECT_THAT(a.recorder->gone.at(old).why, HasSubstr("answers at its address"));
  world.send(a, again, "to the second life");
  ASSERT_TRUE(world.run_until([&] { return world.received(again, a).size() == 1; }));
  EXPECT_THAT(world.received(again, a), ElementsAre("to the second life"));
}

TEST(Session, L8_AnotherIncarnationUnderTheNameProvesNothing) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.link(a, b);
  RawPeer impostor(world, "b");
  auto connection = impostor.dial(a.endpoint->record());
  connection->write(net::encode_hello(impostor.hello(a)));
  ASSERT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::hello) != nullptr; }));
  world.loop->run_for(1s);
  EXPECT_THAT(a.recorder->gone, IsEmpty());
  impostor.close();
  world.send(a, b, "y");
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }));
}

TEST(Session, L8_FencedOnALinkEndsTheSessionAtOnce) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto connection = peer.dial(a.endpoint->record());
  connection->write(net::encode_hello(peer.hello(a)));
  connection->write(net::encode_plain(net::FrameKind::fenced) + RawPeer::message(1, "from the dead"));
  ASSERT_TRUE(world.run_until([&] { return a.recorder->gone.contains(peer.record.incarnation); }, 1s));
  EXPECT_EQ(a.recorder->gone.at(peer.record.incarnation).reason, GoneReason::fenced);
  EXPECT_THAT(a.recorder->heads[peer.record.incarnation], IsEmpty());
}

TEST(Session, L8_ATensorThatHasNotAllComeIsLostWithItsSender) {
  NetWorld world;
  world.network.set_delay([] { return net::Duration(1000); });
  Node a = world.node("a"), b = world.node("b", {.peer_timeout = 8s});
  world.session(a, b)->send({.type = plain, .payload = {.tensors = {at::arange(1024 * 1024)}}}, net::Admission::always);
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 1; }));
  world.network.cut("a", "b");
  auto arrival = b.recorder->arrivals[a.incarnation()].at(0);
  EXPECT_FALSE(arrival->settled());
  ASSERT_TRUE(world.run_until([&] { return !b.recorder->gone.empty(); }, 20s));
  ASSERT_TRUE(arrival->settled()) << "no one waits for it any more";
  try {
    (void)arrival->take();
    FAIL() << "taken";
  } catch (const PeerGoneError& error) {
    EXPECT_EQ(error.worker(), "a");
    EXPECT_EQ(error.reason(), GoneReason::died);
    EXPECT_THAT(error.what(), HasSubstr("nothing was heard from it"));
  }
}

TEST(Session, L8_WhatAStrangerAnswersAtThePeersAddressIsNoSignOfLife) {
  NetWorld world;
  Node a = world.node("a", {.peer_timeout = 8s});
  RawPeer peer(world, "peer");  // its address has gone to another service
  a.endpoint->session(peer.record);
  size_t answered = 0;
  EXPECT_TRUE(world.run_until(
      [&] {
        for (; answered < peer.accepted.size(); ++answered)
          peer.accepted[answered]->write("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        return a.recorder->gone.contains(peer.record.incarnation);
      },
      20s));
  EXPECT_GE(answered, 2U);
  EXPECT_EQ(a.recorder->gone.at(peer.record.incarnation).reason, GoneReason::died);
}

TEST(Session, L8_ATcpAddressThatRefusesIsDeathOnlyIfItDoesSoForASecond) {
  NetWorld world;
  bool refuses = false;
  const auto node = [&](const std::string& name) {
    return world.node(name, {}, make_incarnation(), std::make_shared<RefusingTransport>(world, refuses));
  };
  Node a = node("a"), b = node("b");
  world.link(a, b);
  const auto break_link = [&] {
    refuses = true;
    world.network.break_links("a", "b");
  };
  break_link();
  world.loop->run_for(900ms);
  EXPECT_THAT(a.recorder->gone, IsEmpty());
  refuses = false;
  world.send(a, b, "after a pause");
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }, 5s)) << "C7: it is made anew";

  // The pause before does not count.
  break_link();
  world.loop->run_for(900ms);
  EXPECT_THAT(a.recorder->gone, IsEmpty());
  ASSERT_TRUE(world.run_until([&] { return !a.recorder->gone.empty(); }, 2s));
  EXPECT_EQ(a.recorder->gone.at(b.incarnation()).reason, GoneReason::died);
  EXPECT_EQ(a.recorder->gone.at(b.incarnation()).why, "connection refused");
}

TEST(Session, L9_GoodbyeIsNotDeath) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  for (int i = 0; i < 10; ++i) world.send(a, b, std::to_string(i));
  bool left = false;
  a.endpoint->leave(10s, [&] { left = true; });
  ASSERT_TRUE(world.run_until([&] { return left; }, 5s));
  EXPECT_EQ(world.received(b, a), numbers(10)) << "what was sent before arrives before";
  EXPECT_EQ(b.recorder->gone.at(a.incarnation()).reason, GoneReason::left);
}

TEST(Session, L9_GoodbyeIsAcknowledgedBeforeTheLinkIsClosed) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto connection = peer.dial(a.endpoint->record());
  connection->write(net::encode_hello(peer.hello(a)));
  connection->write(RawPeer::message(1, "last"));
  connection->write(RawPeer::message(2, "", 0, net::MessageType::goodbye));
  ASSERT_TRUE(world.run_until([&] { return connection->closed; }));
  ASSERT_NE(connection->find(net::FrameKind::acknowledgement), nullptr);
  EXPECT_EQ(connection->frames.back().first.acknowledged, 2U);
  EXPECT_EQ(a.recorder->gone.at(peer.record.incarnation).reason, GoneReason::left);
}

TEST(Session, L9_GoodbyeDoesNotWaitForRoom) {
  NetWorld world;
  Node a = world.node("a", {.max_outgoing_bytes = 100}), b = world.node("b");
  world.network.set_delay([] { return net::Duration(1000); });
  world.send(a, b, std::string(1000, 'x'), net::Admission::waits_for_room);
  bool left = false;
  a.endpoint->leave(10s, [&] { left = true; });
  EXPECT_EQ(world.session(a, b)->statistics().sent, 2U) << "the message and, behind it, goodbye";
  ASSERT_TRUE(world.run_until([&] { return left; }, 5s));
  EXPECT_EQ(b.recorder->gone.at(a.incarnation()).reason, GoneReason::left);
}

TEST(Session, L9_GoodbyeComesBehindWhatWaitsForRoom) {
  NetWorld world;
  Node a = world.node("a", {.max_outgoing_bytes = 100}), b = world.node("b");
  for (int i = 0; i < 10; ++i) world.send(a, b, std::to_string(i), net::Admission::waits_for_room);
  bool left = false;
  a.endpoint->leave(10s, [&] { left = true; });
  ASSERT_TRUE(world.run_until([&] { return left; }, 5s));
  EXPECT_EQ(world.received(b, a), numbers(10));
  EXPECT_EQ(b.recorder->gone.at(a.incarnation()).reason, GoneReason::left);
}

TEST(Session, L9_TheLeaverIsDoneWhenItsGoodbyeIsAcknowledgedByAFrameOrByTheNextHello) {
  for (bool by_hello : {false, true}) {
    SCOPED_TRACE(by_hello);
    NetWorld world;
    Node a = world.node("a");
    RawPeer peer(world, "peer");
    a.endpoint->session(peer.record);
    auto connection = peer.dialled();
    connection->write(net::encode_hello(peer.hello(a)));
    bool left = false;
    a.endpoint->leave(20s, [&] { left = true; });
    ASSERT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::message) != nullptr; }));
    world.loop->run_for(1s);
    EXPECT_FALSE(left);
    if (by_hello) {
      net::Hello hello = peer.hello(a, 5);
      hello.last_handled = 1;
      peer.dial(a.endpoint->record())->write(net::encode_hello(hello));
    } else {
      connection->write(net::encode_plain(net::FrameKind::acknowledgement, 0, 1));
    }
    EXPECT_TRUE(world.run_until([&] { return left; }, 1s));
    EXPECT_EQ(a.recorder->gone.at(peer.record.incarnation).reason, GoneReason::left);
  }
}

TEST(Session, L9_GoodbyeDoesNotOvertakeTheBytesOfALargeTensor) {
  NetWorld world;
  world.network.set_delay([] { return net::Duration(1000); });
  Node a = world.node("a"), b = world.node("b");
  const at::Tensor large = at::arange(1024 * 1024);
  world.session(a, b)->send({.type = plain, .payload = {.tensors = {large}}}, net::Admission::always);
  bool left = false;
  a.endpoint->leave(60s, [&] { left = true; });
  ASSERT_TRUE(world.run_until([&] { return left; }, 30s));
  EXPECT_EQ(b.recorder->gone.at(a.incarnation()).reason, GoneReason::left);
  EXPECT_TRUE(b.recorder->arrivals[a.incarnation()].at(0)->take().tensors.at(0).equal(large));
}

TEST(Session, L9_WhoeverHasSaidGoodbyeDoesNotCallTheOthersEndADeath) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    NetWorld world(seed);
    world.network.set_delay([&] { return net::Duration(world.loop->random()() % 1000); });
    Node a = world.node("a"), b = world.node("b");
    world.link(a, b);
    for (Node* node : {&a, &b}) node->endpoint->leave(10s, [node] { node->endpoint->close(); });
    if (seed % 2 == 0) world.network.break_links("a", "b");
    ASSERT_TRUE(world.run_until([&] { return !a.recorder->gone.empty() && !b.recorder->gone.empty(); }, 60s));
    for (Node* node : {&a, &b})
      EXPECT_EQ(node->recorder->gone.begin()->second.reason, GoneReason::left) << "seed " << seed;
  }
}

TEST(Session, L9_TheLeaverWaitsUntilItsGoodbyeWasHeard) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.link(a, b);
  world.network.break_links("a", "b", net::Noticed::by_neither);
  bool left = false;
  a.endpoint->leave(60s, [&] { left = true; });
  world.loop->run_for(1s);
  EXPECT_FALSE(left) << "the goodbye went into a half-open link";
  ASSERT_TRUE(world.run_until([&] { return left; }, 30s));
  a.endpoint->close();
  world.loop->run_for(1s);
  EXPECT_EQ(b.recorder->gone.at(a.incarnation()).reason, GoneReason::left);
}

TEST(Session, L9_AGoodbyeThatIsNeverHeardEndsAfterItsLimit) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.link(a, b);
  world.network.cut("a", "b");
  bool left = false;
  a.endpoint->leave(3s, [&] { left = true; });
  ASSERT_TRUE(world.run_until([&] { return left; }, 4s));
}

TEST(Session, L9_WhoeverBeginsASessionWithALeaverHearsItsGoodbyeToo) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b"), c = world.node("c"), d = world.node("d");
  world.link(a, b);
  world.network.cut("a", "b");
  int left = 0;
  a.endpoint->leave(100s, [&] { ++left; });
  world.send(c, a, "while it waits for b");
  ASSERT_TRUE(world.run_until([&] { return !c.recorder->gone.empty(); }, 5s));
  EXPECT_EQ(c.recorder->gone.at(a.incarnation()).reason, GoneReason::left);
  EXPECT_EQ(left, 0);
  EXPECT_THROW(world.send(a, d, "a leaver begins no session"), PeerGoneError);
  world.network.heal("a", "b");
  ASSERT_TRUE(world.run_until([&] { return left > 0; }, 60s));
  world.send(d, a, "before it closes");
  ASSERT_TRUE(world.run_until([&] { return !d.recorder->gone.empty(); }, 5s));
  EXPECT_EQ(d.recorder->gone.at(a.incarnation()).reason, GoneReason::left);
  world.loop->run_for(1s);
  EXPECT_EQ(left, 1);
}

TEST(Session, AHandlerMaySendToAnyoneWhileTheEndpointCloses) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b"), c = world.node("c");
  world.link(a, b);
  world.link(a, c);
  int refused = 0;
  a.recorder->when_gone = [&](net::Session&) {
    for (const Node& other : {b, c}) {
      try {
        world.send(a, other, "last words");
      } catch (const PeerGoneError& error) {
        EXPECT_THAT(error.what(), HasSubstr("this worker has left"));
        ++refused;
      }
    }
  };
  a.endpoint->close();
  EXPECT_EQ(refused, 4);
}

TEST(Session, WhatIsToBeWrittenLaterGoesWithTheNextOrWhenItIsFlushedOrSoonEnough) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.link(a, b);
  world.run_until([] { return false; }, 100ms);  // whatever is written takes it along: acknowledgements too
  const auto later = [&](const std::string& head) {
    world.session(a, b)->send({.type = plain, .head = head}, net::Admission::always, net::Writing::later);
  };
  const auto arrived = [&](size_t count) {
    return [&world, &a, &b, count] { return world.received(b, a).size() == count; };
  };
  later("1");
  later("2");
  EXPECT_FALSE(world.run_until(arrived(3), 1ms));
  world.send(a, b, "3");
  EXPECT_TRUE(world.run_until(arrived(4), 1ms));
  EXPECT_THAT(world.received(b, a), ElementsAre("x", "1", "2", "3"));
  later("4");
  world.session(a, b)->flush();
  EXPECT_TRUE(world.run_until(arrived(5), 1ms));
  world.run_until([] { return false; }, 100ms);
  later("5");
  EXPECT_TRUE(world.run_until(arrived(6), 10ms));
}

}  // namespace
}  // namespace gradwire::testing
