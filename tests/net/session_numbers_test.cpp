// What is sent again on a new link, and what is not, on a simulated network: rules L6 (numbers) and L7 (bulks).
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/support/net_world.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 1; }));
  auto arrival = b.recorder->arrivals[a.incarnation()][0];
  ASSERT_TRUE(world.run_until([&] { return arrival->settled(); }));
  const wire::Payload payload = arrival->take();
  EXPECT_EQ(payload.bytes, bytes);
  EXPECT_TRUE(payload.tensors.at(0).equal(large));
  EXPECT_TRUE(payload.tensors.at(1).equal(at::ones({3})));
  EXPECT_TRUE(payload.tensors.at(2).equal(large.neg()));
  EXPECT_GT(world.session(a, b)->statistics().links, 2U);
  world.loop->run_for(1s);
  EXPECT_EQ(world.session(a, b)->statistics().held_bytes, 0U);
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
    ASSERT_TRUE(world.run_until([&] { return connection->closed; }));
    ASSERT_NE(connection->find(net::FrameKind::fenced), nullptr);
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
  ASSERT_TRUE(world.run_until([&] { return a.recorder->gone.contains(peer.record.incarnation); }));
  EXPECT_THAT(a.recorder->gone.at(peer.record.incarnation).why, HasSubstr("acknowledges message 1"));
}

TEST(Session, L6_AnAcknowledgementThatComesWithAChunkCounts) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto session = a.endpoint->session(peer.record);
  session->send({.type = plain, .head = "m"}, net::Admission::always);
  auto connection = peer.dialled();
  connection->write(net::encode_hello(peer.hello(a)));
  ASSERT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::message) != nullptr; }));
  EXPECT_GT(session->statistics().held_bytes, 0U);
  std::string chunk = RawPeer::frame(net::FrameKind::chunk, std::string(net::chunk_prefix_size + 1, '\0'), 1);
  net::patch_acknowledged(chunk.data(), 1);
  connection->write(chunk);
  EXPECT_TRUE(world.run_until([&] { return session->statistics().held_bytes == 0; }, 100ms));
  net::patch_acknowledged(chunk.data(), 2);
  connection->write(chunk);
  ASSERT_TRUE(world.run_until([&] { return session->ended(); }));
  EXPECT_THAT(a.recorder->gone.at(peer.record.incarnation).why, HasSubstr("acknowledges message 2"));
}

TEST(Session, L6_ResumesBehindWhatThePeerHasHandled) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  for (int i = 1; i <= 3; ++i)
    a.endpoint->session(peer.record)->send({.type = plain, .head = "m"}, net::Admission::always);
  auto connection = peer.dialled();
  connection->write(net::encode_hello(peer.hello(a)));
  ASSERT_TRUE(world.run_until([&] { return connection->frames.size() == 4; }));
  auto next = peer.dial(a.endpoint->record());
  net::Hello hello = peer.hello(a, 5);
  hello.last_handled = 2;  // the third was lost
  next->write(net::encode_hello(hello));
  ASSERT_TRUE(world.run_until([&] { return next->find(net::FrameKind::message) != nullptr; }));
  EXPECT_EQ(next->find(net::FrameKind::message)->number, 3U);
}

// Sends 8 MiB, of which some chunks have come when this returns.
std::shared_ptr<net::Session> send_part_of_a_bulk(NetWorld& world, Node& a, RawPeer& peer) {
  auto session = a.endpoint->session(peer.record);
  session->send({.type = plain, .payload = {.tensors = {at::arange(1024 * 1024)}}}, net::Admission::always);
  auto first = peer.dialled();
  first->write(net::encode_hello(peer.hello(a)));
  EXPECT_TRUE(world.run_until([&] { return first->chunks.size() >= 3; }));
  return session;
}

TEST(Session, L7_ABulkThatIsUnfinishedAtItsEndOrBeyondWhatWasWrittenIsAnsweredFencedAndTheSessionGoesOn) {
  for (uint64_t offset : {uint64_t{7} << 20U, uint64_t{8} << 20U, uint64_t{9} << 20U, UINT64_MAX}) {
    SCOPED_TRACE(offset);
    NetWorld world;
    Node a = world.node("a");
    RawPeer peer(world, "peer");
    auto session = send_part_of_a_bulk(world, a, peer);
    const auto dial = [&](uint64_t at) {
      net::Hello hello = peer.hello(a, 5);
      hello.last_handled = 1;
      hello.unfinished_bulks = {{1, 1, at}};
      auto connection = peer.dial(a.endpoint->record());
      connection->write(net::encode_hello(hello));
      return connection;
    };
    auto bad = dial(offset);
    ASSERT_TRUE(world.run_until([&] { return bad->closed; }, 1s));
    EXPECT_NE(bad->find(net::FrameKind::fenced), nullptr);
    EXPECT_FALSE(session->ended());
    EXPECT_FALSE(peer.accepted[0]->closed) << "the link stays";
    EXPECT_EQ(session->statistics().links, 1U);
    // Neither its top nor its bulk has changed.
    auto good = dial(300000);
    ASSERT_TRUE(world.run_until([&] { return !good->chunks.empty(); }, 1s));
    EXPECT_EQ(good->chunks[0].offset, 300000U);
    EXPECT_THAT(a.recorder->gone, IsEmpty());
  }
}

TEST(Session, L7_ABulkThatIsNotUnderWayCannotBeUnfinished) {
  struct Case {
    uint64_t last_handled;
    net::BulkOffset listed;
  };
  // A part that does not stream, a message that was never sent, and one that was not handled.
  for (const auto& [last_handled, listed] : {Case{1, {1, 2, 0}}, Case{1, {2, 1, 0}}, Case{0, {1, 1, 0}}}) {
    NetWorld world;
    Node a = world.node("a");
    RawPeer peer(world, "peer");
    auto session = send_part_of_a_bulk(world, a, peer);
    net::Hello hello = peer.hello(a, 5);
    hello.last_handled = last_handled;
    hello.unfinished_bulks = {listed};
    auto bad = peer.dial(a.endpoint->record());
    bad->write(net::encode_hello(hello));
    ASSERT_TRUE(world.run_until([&] { return bad->closed; }, 1s));
    EXPECT_NE(bad->find(net::FrameKind::fenced), nullptr);
    EXPECT_FALSE(session->ended());
    EXPECT_EQ(session->statistics().links, 1U);
  }
}

TEST(Session, L7_ManyUnfinishedBulksGoOnAfterABreak) {
  NetWorld world;
  world.network.set_delay([] { return net::Duration(1000); });
  Node a = world.node("a"), b = world.node("b");
  std::vector<at::Tensor> tensors;
  for (int64_t i = 0; i < 20000; ++i) tensors.push_back(at::full({40}, i));
  world.session(a, b)->send({.type = plain, .payload = {.tensors = tensors}}, net::Admission::always);
  ASSERT_TRUE(world.run_until([&] { return world.received(b, a).size() == 1; }));
  auto arrival = b.recorder->arrivals[a.incarnation()][0];
  ASSERT_FALSE(arrival->settled());
  world.network.break_links("a", "b");
  ASSERT_TRUE(world.run_until([&] { return arrival->settled(); }));
  const wire::Payload payload = arrival->take();
  ASSERT_EQ(payload.tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); i += 999) EXPECT_TRUE(payload.tensors[i].equal(tensors[i])) << i;
  EXPECT_GT(world.session(a, b)->statistics().links, 1U);
  EXPECT_THAT(a.recorder->gone, IsEmpty());
}

TEST(Session, L7_ABulkGoesOnAsTheNextHelloSays) {
  struct Case {
    uint64_t last_handled;
    std::vector<net::BulkOffset> listed;
    std::vector<uint64_t> first_chunk;  // its offset on the next link; none if no chunk comes
  };
  const std::vector<Case> cases = {
      {0, {}, {0}},                     // the header was lost: from 0, behind it
      {1, {{1, 1, 300000}}, {300000}},  // listed: from there
      {1, {}, {}},                      // handled and not listed: finished
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    NetWorld world;
    Node a = world.node("a");
    RawPeer peer(world, "peer");
    auto session = send_part_of_a_bulk(world, a, peer);
    auto next = peer.dial(a.endpoint->record());
    net::Hello hello = peer.hello(a, 5);
    hello.last_handled = cases[i].last_handled;
    hello.unfinished_bulks = cases[i].listed;
    next->write(net::encode_hello(hello));
    ASSERT_TRUE(world.run_until([&] { return next->find(net::FrameKind::hello) != nullptr; }));
    world.loop->run_for(1s);
    EXPECT_EQ(next->find(net::FrameKind::message) != nullptr, cases[i].last_handled == 0);
    ASSERT_EQ(next->chunks.empty(), cases[i].first_chunk.empty());
    if (next->chunks.empty()) {
      EXPECT_EQ(session->statistics().held_bytes, 0U) << "its bytes are released";
    } else {
      EXPECT_EQ(next->chunks[0].offset, cases[i].first_chunk[0]);
    }
    EXPECT_THAT(a.recorder->gone, IsEmpty());
  }
}

}  // namespace
}  // namespace gradwire::testing
