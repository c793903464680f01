// Sessions on a simulated network: S1-S4, and the rules for links L1-L9, one by one.
#include "gradwire/net/session.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "../support/net_world.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> numbers(int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) texts.push_back(std::to_string(i));
  return texts;
}

TEST(Session, DeliversMessagesInOrderBothWays) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  for (int i = 0; i < 100; ++i) {
    world.send(a, b, std::to_string(i));
    world.send(b, a, std::to_string(i));
  }
  EXPECT_TRUE(
      world.run_until([&] { return world.received(b, a).size() == 100 && world.received(a, b).size() == 100; }));
  EXPECT_EQ(world.received(b, a), numbers(100));
  EXPECT_EQ(world.received(a, b), numbers(100));
}

TEST(Session, S1_ResumesAfterABrokenLinkWithoutLossOrRepetition) {  // closes C7
  NetWorld world;
  world.network.set_delay([&] { return net::Duration(world.loop->random()() % 1000); });
  Node a = world.node("a"), b = world.node("b");
  for (int i = 0; i < 100; ++i) {
    world.send(a, b, std::to_string(i));
    if (i % 10 == 5) world.network.break_links("a", "b");
    world.loop->run_for(300ns);
  }
  EXPECT_TRUE(world.run_until([&] { return world.received(b, a).size() == 100; }));
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
  EXPECT_TRUE(world.run_until([&] { return world.received(b, a).size() == 101; }));
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
  EXPECT_TRUE(world.run_until([&] { return world.received(b, a).size() == 11; }));
  EXPECT_EQ(world.received(b, a)[1], "control");
}

TEST(Session, S3_AMessageLargerThanTheLimitGoesAlone) {
  NetWorld world;
  Node a = world.node("a", {.max_outgoing_bytes = 100}), b = world.node("b");
  world.send(a, b, std::string(5000, 'x'), net::Admission::waits_for_room);
  world.send(a, b, "small", net::Admission::waits_for_room);
  EXPECT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }));
}

TEST(Session, S4_ALargeTransferDoesNotHoldUpSmallMessages) {
  NetWorld world;
  world.network.set_delay([] { return net::Duration(1000); });
  Node a = world.node("a"), b = world.node("b");
  const at::Tensor large = at::arange(1536 * 1024);  // 12 MB of int64: less than the largest frame
  world.session(a, b)->send({.type = plain, .head = "large", .payload = {.tensors = {large}}}, net::Admission::always);
  world.send(a, b, "small");
  EXPECT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }));
  auto arrival = b.recorder->arrivals[a.incarnation()][0];
  EXPECT_FALSE(arrival->settled()) << "the small message arrived while the large one is still under way";
  EXPECT_TRUE(world.run_until([&] { return arrival->settled(); }));
  EXPECT_TRUE(arrival->take().tensors.at(0).equal(large));
  world.loop->run_for(1s);
  EXPECT_EQ(world.session(a, b)->statistics().held_bytes, 0U);
}

TEST(Session, S4_TheTensorsDescriptionsAreThereBeforeTheirBytes) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  std::vector<int64_t> sizes;
  b.recorder->when_arrived = [&](net::Session&, net::Delivery& delivery) {
    EXPECT_FALSE(delivery.arrival->settled());
    sizes = delivery.descriptions.at(0).sizes;
  };
  world.session(a, b)->send({.type = plain, .payload = {.tensors = {at::ones({1000, 1000})}}}, net::Admission::always);
  EXPECT_TRUE(world.run_until([&] { return !sizes.empty(); }));
  EXPECT_THAT(sizes, ElementsAre(1000, 1000));
}

TEST(Session, L7_ABulkGoesOnWhereItWasAfterABreak) {
  NetWorld world;
  world.network.set_delay([] { return net::Duration(1000); });
  Node a = world.node("a"), b = world.node("b");
  const at::Tensor large = at::arange(2 * 1024 * 1024);
  std::string bytes(3000000, 'b');
  world.session(a, b)->send(
      {.type = plain, .payload = {.bytes = bytes, .tensors = {large, at::ones({3}), large.neg()}}},
      net::Admission::always);
  for (int i = 0; i < 20; ++i) {
    world.loop->run_for(net::Duration(world.loop->random()() % 60000));
    world.network.break_links("a", "b");
  }
  EXPECT_TRUE(world.run_until([&] { return world.received(b, a).size() == 1; }));
  auto arrival = b.recorder->arrivals[a.incarnation()][0];
  EXPECT_TRUE(world.run_until([&] { return arrival->settled(); }));
  const wire::Payload payload = arrival->take();
  EXPECT_EQ(payload.bytes, bytes);
  EXPECT_TRUE(payload.tensors.at(0).equal(large));
  EXPECT_TRUE(payload.tensors.at(1).equal(at::ones({3})));
  EXPECT_TRUE(payload.tensors.at(2).equal(large.neg()));
  EXPECT_GT(world.session(a, b)->statistics().links, 2U);
  world.loop->run_for(1s);
  EXPECT_EQ(world.session(a, b)->statistics().held_bytes, 0U);
}

TEST(Session, RefusesAMessageBeyondItsBoundAndLives) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b", {.inbox = {.largest_message = 1000000}});
  world.session(a, b)->send({.type = plain, .payload = {.tensors = {at::ones({1000, 1000})}}}, net::Admission::always);
  world.send(a, b, "next");
  EXPECT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }));
  EXPECT_THAT(b.recorder->refusals[0], HasSubstr("4000000 bytes; 1000000 is the most"));
  EXPECT_EQ(b.recorder->arrivals[a.incarnation()][0], nullptr);
  EXPECT_EQ(b.recorder->refusals[1], "");
  world.loop->run_for(1s);
  EXPECT_EQ(world.session(a, b)->statistics().held_bytes, 0U) << "a refused bulk is acknowledged as finished (L7)";
}

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
    EXPECT_TRUE(world.run_until([&] { return world.received(b, a).size() == 1 && world.received(a, b).size() == 1; }))
        << seed;
    world.loop->run_for(1s);
    EXPECT_TRUE(world.linked(a, b)) << seed;
    EXPECT_LE(world.session(a, b)->statistics().dials + world.session(b, a)->statistics().dials, 3U) << seed;
  }
}

TEST(Session, L3_ALinkOfLowerRankIsRefusedWithoutEffect) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto first = peer.dial(a.endpoint->record());
  first->write(net::encode_hello(peer.hello(a, 7)));
  EXPECT_TRUE(world.run_until([&] { return first->find(net::FrameKind::hello) != nullptr; }));
  first->write(RawPeer::message(1, "one"));
  auto second = peer.dial(a.endpoint->record());
  second->write(net::encode_hello(peer.hello(a, 7)));
  EXPECT_TRUE(world.run_until([&] { return second->find(net::FrameKind::refused) != nullptr; }));
  EXPECT_EQ(second->find(net::FrameKind::refused)->number, 7U);
  first->write(RawPeer::message(2, "two"));
  EXPECT_TRUE(world.run_until([&] { return a.recorder->heads[peer.record.incarnation].size() == 2; }));
  EXPECT_FALSE(first->closed);
}

TEST(Session, L3_ALinkOfHigherRankReplacesTheCurrentOne) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto first = peer.dial(a.endpoint->record());
  first->write(net::encode_hello(peer.hello(a, 1)));
  first->write(RawPeer::message(1, "one"));
  EXPECT_TRUE(world.run_until([&] { return a.recorder->heads[peer.record.incarnation].size() == 1; }));
  auto second = peer.dial(a.endpoint->record());
  net::Hello hello = peer.hello(a, 2);
  second->write(net::encode_hello(hello));
  EXPECT_TRUE(world.run_until([&] { return second->find(net::FrameKind::hello) != nullptr && first->closed; }));
  EXPECT_EQ(net::decode_hello(second->frames[0].second).last_handled, 1U)
      << "L2: sampled after the old link was stopped";
  // The old link is stopped (L2): what it still brings is not handled.
  first->write(RawPeer::message(2, "late"));
  second->write(RawPeer::message(2, "two"));
  EXPECT_TRUE(world.run_until([&] { return a.recorder->heads[peer.record.incarnation].size() == 2; }));
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

TEST(Session, L3_AHelloForAnotherIncarnationIsAnsweredWithNotMe) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto connection = peer.dial(a.endpoint->record());
  net::Hello hello = peer.hello(a);
  hello.yours = Incarnation{42};
  connection->write(net::encode_hello(hello));
  EXPECT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::not_me) != nullptr; }));
  EXPECT_EQ(connection->find(net::FrameKind::not_me)->number, static_cast<uint64_t>(a.incarnation()));
  EXPECT_THAT(a.endpoint->sessions(), IsEmpty());
}

TEST(Session, L4_SendsNothingButHelloUntilItHasTheAcceptors) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  a.endpoint->session(peer.record)->send({.type = plain, .head = "early"}, net::Admission::always);
  EXPECT_TRUE(world.run_until([&] { return !peer.accepted.empty() && !peer.accepted[0]->frames.empty(); }));
  world.loop->run_for(100ms);
  EXPECT_THAT(peer.accepted[0]->frames, SizeIs(1));
  EXPECT_EQ(peer.accepted[0]->frames[0].first.kind, net::FrameKind::hello);
  peer.accepted[0]->write(net::encode_hello(peer.hello(a)));
  EXPECT_TRUE(world.run_until([&] { return peer.accepted[0]->find(net::FrameKind::message) != nullptr; }));
}

TEST(Session, L4_AfterRefusedItWaitsForThePeersLinkUntilItsTimerEnds) {
  NetWorld world;
  Node a = world.node("a", {.peer_timeout = 8s});
  RawPeer peer(world, "peer");
  auto session = a.endpoint->session(peer.record);
  EXPECT_TRUE(world.run_until([&] { return !peer.accepted.empty() && !peer.accepted[0]->frames.empty(); }));
  peer.accepted[0]->write(net::encode_plain(net::FrameKind::refused, 5));
  world.loop->run_for(300ms);
  EXPECT_THAT(peer.accepted, SizeIs(1)) << "it waits";
  EXPECT_TRUE(world.run_until([&] { return peer.accepted.size() == 2 && !peer.accepted[1]->frames.empty(); }, 5s));
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
  EXPECT_TRUE(world.run_until([&] { return connection->closed; }, 2s));
}

TEST(Session, L5_ALinkSilentAlthoughPingedIsBroken) {
  NetWorld world;
  Node a = world.node("a", {.peer_timeout = 8s}), b = world.node("b", {.peer_timeout = 8s});
  world.send(a, b, "x");
  world.run_until([&] { return world.linked(a, b); });
  const uint64_t links = world.session(a, b)->statistics().links;
  world.network.break_links("a", "b", net::Noticed::by_neither);
  world.send(a, b, "into the void");
  EXPECT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }, 7s));
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

TEST(Session, L6_AMessageThatIsNotTheNextEndsTheSessionOnBothSides) {
  for (uint64_t number : {1U, 3U}) {  // a repetition, a gap
    NetWorld world;
    Node a = world.node("a");
    RawPeer peer(world, "peer");
    auto connection = peer.dial(a.endpoint->record());
    connection->write(net::encode_hello(peer.hello(a)));
    connection->write(RawPeer::message(1, "one"));
    connection->write(RawPeer::message(number, "wrong"));
    EXPECT_TRUE(world.run_until([&] { return connection->closed; }));
    EXPECT_NE(connection->find(net::FrameKind::fenced), nullptr);
    EXPECT_THAT(a.recorder->heads[peer.record.incarnation], ElementsAre("one"));
    EXPECT_EQ(a.recorder->gone.at(peer.record.incarnation).reason, GoneReason::fenced);
  }
}

TEST(Session, L6_AnAcknowledgementOfWhatWasNeverSentEndsTheSession) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto connection = peer.dial(a.endpoint->record());
  connection->write(net::encode_hello(peer.hello(a)));
  connection->write(net::encode_plain(net::FrameKind::acknowledgement, 0, 1));
  EXPECT_TRUE(world.run_until([&] { return a.recorder->gone.contains(peer.record.incarnation); }));
  EXPECT_THAT(a.recorder->gone.at(peer.record.incarnation).why, HasSubstr("acknowledges message 1"));
}

TEST(Session, L6_ResumesBehindWhatThePeerHasHandled) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  for (int i = 1; i <= 3; ++i)
    a.endpoint->session(peer.record)->send({.type = plain, .head = "m"}, net::Admission::always);
  EXPECT_TRUE(world.run_until([&] { return !peer.accepted.empty() && !peer.accepted[0]->frames.empty(); }));
  peer.accepted[0]->write(net::encode_hello(peer.hello(a)));
  EXPECT_TRUE(world.run_until([&] { return peer.accepted[0]->frames.size() == 4; }));
  auto next = peer.dial(a.endpoint->record());
  net::Hello hello = peer.hello(a, 5);
  hello.last_handled = 2;  // the third was lost
  next->write(net::encode_hello(hello));
  EXPECT_TRUE(world.run_until([&] { return next->find(net::FrameKind::message) != nullptr; }));
  EXPECT_EQ(next->find(net::FrameKind::message)->number, 3U);
}

TEST(Session, L8_DeathIsDeclaredOnceWhenTheAddressRefuses) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.send(a, b, "x");
  world.run_until([&] { return world.linked(a, b); });
  const net::Record record = b.endpoint->record();
  b.endpoint->close();
  EXPECT_TRUE(world.run_until([&] { return a.recorder->gone.contains(record.incarnation); }, 1s));
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
  EXPECT_TRUE(world.run_until([&] { return !a.recorder->gone.empty(); }, 20s));
  EXPECT_EQ(a.recorder->gone.at(b.incarnation()).reason, GoneReason::died);
  EXPECT_THAT(b.recorder->gone, IsEmpty());
  world.send(b, a, "from the dead");
  world.network.heal("a", "b");
  // b was declared dead while it lives: it is fenced, and nothing it sent is delivered (S2).
  EXPECT_TRUE(world.run_until([&] { return !b.recorder->gone.empty(); }, 60s));
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
  EXPECT_TRUE(world.run_until([&] { return a.recorder->gone.contains(old); }, 60s));
  EXPECT_THAT(a.recorder->gone.at(old).why, HasSubstr("answers at its address"));
  world.send(a, again, "to the second life");
  EXPECT_TRUE(world.run_until([&] { return world.received(again, a).size() == 1; }));
  EXPECT_THAT(world.received(again, a), ElementsAre("to the second life"));
}

TEST(Session, L8_AnotherIncarnationUnderTheNameProvesNothing) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.send(a, b, "x");
  world.run_until([&] { return world.linked(a, b); });
  RawPeer impostor(world, "b");
  auto connection = impostor.dial(a.endpoint->record());
  connection->write(net::encode_hello(impostor.hello(a)));
  EXPECT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::hello) != nullptr; }));
  world.loop->run_for(1s);
  EXPECT_THAT(a.recorder->gone, IsEmpty());
  impostor.close();
  world.send(a, b, "y");
  EXPECT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }));
}

TEST(Session, L9_GoodbyeIsNotDeath) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  for (int i = 0; i < 10; ++i) world.send(a, b, std::to_string(i));
  bool left = false;
  a.endpoint->leave(10s, [&] { left = true; });
  EXPECT_TRUE(world.run_until([&] { return left; }, 5s));
  EXPECT_EQ(world.received(b, a), numbers(10)) << "what was sent before arrives before";
  EXPECT_EQ(b.recorder->gone.at(a.incarnation()).reason, GoneReason::left);
}

TEST(Session, L9_GoodbyeDoesNotOvertakeTheBytesOfALargeTensor) {
  NetWorld world;
  world.network.set_delay([] { return net::Duration(1000); });
  Node a = world.node("a"), b = world.node("b");
  const at::Tensor large = at::arange(1024 * 1024);
  world.session(a, b)->send({.type = plain, .payload = {.tensors = {large}}}, net::Admission::always);
  bool left = false;
  a.endpoint->leave(60s, [&] { left = true; });
  EXPECT_TRUE(world.run_until([&] { return left; }, 30s));
  EXPECT_EQ(b.recorder->gone.at(a.incarnation()).reason, GoneReason::left);
  EXPECT_TRUE(b.recorder->arrivals[a.incarnation()].at(0)->take().tensors.at(0).equal(large));
}

TEST(Session, L9_WhoeverHasSaidGoodbyeDoesNotCallTheOthersEndADeath) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    NetWorld world(seed);
    world.network.set_delay([&] { return net::Duration(world.loop->random()() % 1000); });
    Node a = world.node("a"), b = world.node("b");
    world.send(a, b, "x");
    world.run_until([&] { return world.linked(a, b); });
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
  world.send(a, b, "x");
  world.run_until([&] { return world.linked(a, b); });
  world.network.break_links("a", "b", net::Noticed::by_neither);
  bool left = false;
  a.endpoint->leave(60s, [&] { left = true; });
  world.loop->run_for(1s);
  EXPECT_FALSE(left) << "the goodbye went into a half-open link";
  EXPECT_TRUE(world.run_until([&] { return left; }, 30s));
  a.endpoint->close();
  world.loop->run_for(1s);
  EXPECT_EQ(b.recorder->gone.at(a.incarnation()).reason, GoneReason::left);
}

TEST(Session, L9_AGoodbyeThatIsNeverHeardEndsAfterItsLimit) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.send(a, b, "x");
  world.run_until([&] { return world.linked(a, b); });
  world.network.cut("a", "b");
  bool left = false;
  a.endpoint->leave(3s, [&] { left = true; });
  EXPECT_TRUE(world.run_until([&] { return left; }, 4s));
}

TEST(Session, BadBytesCloseTheLinkAndTheMessageComesAgain) {  // closes C21
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.send(a, b, "0");
  world.run_until([&] { return world.linked(a, b); });
  int broken = 0;
  for (int i = 1; i < 50; ++i) {
    world.network.corrupt("a", "b");
    // A length that is bent may make the reader wait for more: it is then broken by silence.
    world.send(a, b, std::to_string(i));
    if (!world.run_until(
            [&] { return static_cast<int>(world.received(b, a).size()) == i + 1 || !b.recorder->gone.empty(); }))
      break;
    if (!b.recorder->gone.empty()) {
      ++broken;
      break;
    }
  }
  // Whatever the flipped byte hit, the worker lives; a message is never handled twice.
  EXPECT_LE(world.received(b, a).size(), 50U);
  EXPECT_LE(broken, 1);
}

TEST(Session, TheSameNumberBadTwiceEndsTheSession) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  for (uint64_t attempt = 1; attempt <= 2; ++attempt) {
    auto connection = peer.dial(a.endpoint->record());
    connection->write(net::encode_hello(peer.hello(a, 10 * attempt)));
    EXPECT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::hello) != nullptr; }));
    std::string bad = RawPeer::message(1, "one");
    bad[net::frame_header_size + 2] = '\x7f';  // a head longer than the frame
    connection->write(bad);
    EXPECT_TRUE(world.run_until([&] { return connection->closed; }));
    EXPECT_EQ(a.recorder->gone.contains(peer.record.incarnation), attempt == 2);
  }
  EXPECT_EQ(a.recorder->gone.at(peer.record.incarnation).reason, GoneReason::fenced);
}

TEST(Session, AConnectionThatDoesNotSpeakTheProtocolIsClosed) {  // closes C21
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: worker\r\n\r\n"), std::string(100, '\0'), std::string(100, '\xff')}) {
    auto connection = peer.dial(a.endpoint->record());
    connection->write(bytes);
    EXPECT_TRUE(world.run_until([&] { return connection->closed; }));
  }
  EXPECT_THAT(a.endpoint->sessions(), IsEmpty());
}

TEST(Session, AnotherVersionIsToldSoInASentence) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto connection = peer.dial(a.endpoint->record());
  net::Hello hello = peer.hello(a);
  hello.version = 9;
  connection->write(net::encode_hello(hello));
  EXPECT_TRUE(world.run_until([&] { return connection->closed; }));
  ASSERT_NE(connection->find(net::FrameKind::incompatible), nullptr);
  EXPECT_EQ(connection->frames[0].second,
            "a speaks version 1 of the protocol, the caller version 9: use one release on both");
}

TEST(Session, AReplayedConnectionIsRefused) {
  NetWorld world;
  Node a = world.node("a"), b = world.node("b");
  world.send(a, b, "x");
  world.run_until([&] { return world.linked(a, b); });
  world.network.replay("a", "b");
  world.network.replay("a", "b");
  world.loop->run_for(1s);
  world.send(a, b, "y");
  EXPECT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }));
  EXPECT_THAT(world.received(b, a), ElementsAre("x", "y"));
}

TEST(Session, AProcessThatWasStoppedDoesNotTakeItsOwnSilenceForTheOthersDeath) {
  NetWorld world;
  Node a = world.node("a", {.peer_timeout = 8s}), b = world.node("b", {.peer_timeout = 1000s});
  world.send(a, b, "x");
  world.run_until([&] { return world.linked(a, b); });
  world.loop->sleep(100s);  // both stand still: no task of either runs
  world.send(a, b, "y");
  EXPECT_TRUE(world.run_until([&] { return world.received(b, a).size() == 2; }, 5s));
  EXPECT_THAT(a.recorder->gone, IsEmpty());
}

}  // namespace
}  // namespace gradwire::testing
