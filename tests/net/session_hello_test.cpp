// A Hello is checked whole before anything that works is stopped, on a simulated network: rules L3, L6 and L7, and what
// is kept of a session that has ended.
#include <gmock/gmock.h>

#include "tests/support/net_world.h"
#include "tests/support/thrown.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;
using net::FrameKind;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t two_to_63 = uint64_t{1} << 63U;

// A worker with a healthy link to a peer that speaks frames by hand.
struct Linked {
  Linked() {
    link = peer.dial(a.endpoint->record());
    link->write(net::encode_hello(peer.hello(a, 3)));
    EXPECT_TRUE(world.run_until([&] { return link->find(FrameKind::hello) != nullptr; }));
    session = a.endpoint->session(peer.record);
  }
  // Dials with this Hello, and runs until the connection is closed.
  std::shared_ptr<RawPeer::Connection> refused(const net::Hello& hello) {
    auto connection = peer.dial(a.endpoint->record());
    connection->write(net::encode_hello(hello));
    EXPECT_TRUE(world.run_until([&] { return connection->closed; }, 1s));
    return connection;
  }
  // The link works both ways, and is the one from before.
  void expect_unharmed() {
    EXPECT_THAT(a.recorder->gone, IsEmpty());
    EXPECT_FALSE(link->closed);
    EXPECT_EQ(session->statistics().links, 1U);
    EXPECT_EQ(session->statistics().dials, 0U);
    const auto& heads = a.recorder->heads[peer.record.incarnation];
    link->write(RawPeer::message(heads.size() + 1, "alive", acknowledged));
    EXPECT_TRUE(world.run_until([&, before = heads.size()] { return heads.size() == before + 1; }, 1s));
    const size_t frames = link->frames.size();
    session->send({.type = plain, .head = "m"}, net::Admission::always);
    EXPECT_TRUE(world.run_until([&] { return link->frames.size() > frames; }, 1s));
  }
  // Its top was not raised.
  void expect_next_attempt_is_adopted() {
    auto next = peer.dial(a.endpoint->record());
    net::Hello hello = peer.hello(a, 4);
    hello.last_handled = session->statistics().sent;
    next->write(net::encode_hello(hello));
    EXPECT_TRUE(world.run_until([&] { return next->find(FrameKind::hello) != nullptr && link->closed; }, 1s));
  }

  NetWorld world;
  Node a = world.node("a");
  RawPeer peer{world, "peer"};
  std::shared_ptr<RawPeer::Connection> link;
  std::shared_ptr<net::Session> session;
  uint64_t acknowledged = 0;  // by the peer, of what it was sent
};

TEST(Hello, F11_W4_ALastHandledThatCannotBeTrueIsAnsweredFencedAndTheHealthyLinkStays) {
  Linked world;
  world.session->send({.type = plain, .head = "1"}, net::Admission::always);
  world.session->send({.type = plain, .head = "2"}, net::Admission::always);
  ASSERT_TRUE(world.world.run_until([&] { return world.link->frames.size() == 3; }, 1s));
  world.acknowledged = 1;
  world.link->write(net::encode_plain(FrameKind::acknowledgement, 0, world.acknowledged));
  world.world.loop->run_for(10ms);
  // Fewer than it has acknowledged, and more than it was sent.
  for (const uint64_t last : {uint64_t{0}, uint64_t{3}, UINT64_MAX}) {
    SCOPED_TRACE(last);
    net::Hello hello = world.peer.hello(world.a, 1000);
    hello.last_handled = last;
    const auto connection = world.refused(hello);
    ASSERT_EQ(connection->frames.size(), 1U);
    EXPECT_EQ(connection->frames[0].first.kind, FrameKind::fenced);
  }
  world.expect_unharmed();
  world.expect_next_attempt_is_adopted();
}

TEST(Hello, W4_ListsOfWhatWasNeverSentAreAnsweredFencedAndTheHealthyLinkStays) {
  Linked world;
  net::Hello bulks = world.peer.hello(world.a, 1000);
  bulks.unfinished_bulks.resize(100);
  net::Hello segments = world.peer.hello(world.a, 1000);
  segments.segments.resize(100);
  for (const net::Hello& hello : {bulks, segments}) EXPECT_NE(world.refused(hello)->find(FrameKind::fenced), nullptr);
  world.expect_unharmed();
  world.expect_next_attempt_is_adopted();
}

TEST(Hello, W14_AnAttemptThatCannotBeTrueIsAnsweredFencedAndTheHealthyLinkStays) {
  Linked world;
  for (const uint64_t attempt : {two_to_63, UINT64_MAX - 1, UINT64_MAX}) {
    SCOPED_TRACE(attempt);
    EXPECT_NE(world.refused(world.peer.hello(world.a, attempt))->find(FrameKind::fenced), nullptr);
  }
  world.expect_unharmed();
  world.expect_next_attempt_is_adopted();
}

TEST(Hello, W14_ARefusedForAnAttemptThatCannotBeTrueIsNotBelieved) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto session = a.endpoint->session(peer.record);
  for (const uint64_t attempt : {UINT64_MAX, two_to_63}) {
    auto connection = peer.dialled();
    connection->write(net::encode_plain(FrameKind::refused, attempt));
    ASSERT_TRUE(world.run_until([&] { return connection->closed; }, 1s));
    peer.accepted.erase(peer.accepted.begin());
  }
  auto connection = peer.dialled();
  EXPECT_EQ(net::decode_hello(connection->frames[0].second).attempt, 3U);
  EXPECT_FALSE(session->ended());
}

TEST(Hello, W14_AttemptsThatAreUsedUpEndTheSessionAndDoNotBeginAgain) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  a.endpoint->session(peer.record);
  peer.dialled()->write(net::encode_plain(FrameKind::refused, net::largest_attempt));
  ASSERT_TRUE(world.run_until([&] { return a.recorder->gone.contains(peer.record.incarnation); }, 1min));
  EXPECT_EQ(a.recorder->gone.at(peer.record.incarnation).reason, GoneReason::fenced);
  // Connected perhaps, but no Hello was said with a wrapped attempt.
  for (size_t i = 1; i < peer.accepted.size(); ++i) EXPECT_THAT(peer.accepted[i]->frames, IsEmpty());
}

TEST(Hello, L3_NotMeAndRefusedAreDecidedBeforeTheNumbersAreLookedAt) {
  Linked world;
  net::Hello low = world.peer.hello(world.a, 3);
  low.last_handled = 1000;
  EXPECT_NE(world.refused(low)->find(FrameKind::refused), nullptr);
  net::Hello for_another = world.peer.hello(world.a, two_to_63);
  for_another.yours = Incarnation{42};
  EXPECT_NE(world.refused(for_another)->find(FrameKind::not_me), nullptr);
  world.expect_unharmed();
}

TEST(Hello, L3_ItsListsAreReadOnlyIfItsFixedPartIsWanted) {
  Linked world;
  net::Hello for_another = world.peer.hello(world.a, 1000);
  for_another.yours = Incarnation{42};
  net::Hello beyond = world.peer.hello(world.a, 1000);
  beyond.last_handled = 1000;
  const std::vector<std::pair<net::Hello, FrameKind>> cases = {{for_another, FrameKind::not_me},
                                                               {world.peer.hello(world.a, 3), FrameKind::refused},
                                                               {beyond, FrameKind::fenced},
                                                               {world.peer.hello(world.a, 1000), FrameKind::fenced}};
  for (const auto& [hello, answer] : cases) {
    auto connection = world.peer.dial(world.a.endpoint->record());
    // It announces 15 MiB of lists, and sends none.
    std::string begun = net::encode_hello(hello);
    const uint32_t announced = 15U << 20U;
    begun.replace(0, sizeof announced, reinterpret_cast<const char*>(&announced), sizeof announced);
    begun.resize(begun.size() - net::empty_lists_size);
    connection->write(begun);
    ASSERT_TRUE(world.world.run_until([&] { return connection->closed; }, 1s)) << static_cast<int>(answer);
    EXPECT_NE(connection->find(answer), nullptr) << static_cast<int>(answer);
  }
  world.expect_unharmed();
}

TEST(Hello, W4_AStrangersFirstHelloThatCannotBeTrueMakesNoSession) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer stranger(world, "stranger");
  net::Hello handled = stranger.hello(a), attempts = stranger.hello(a, two_to_63), listed = stranger.hello(a);
  handled.last_handled = 1;
  listed.segments = {1};
  for (const net::Hello& hello : {handled, attempts, listed}) {
    auto connection = stranger.dial(a.endpoint->record());
    connection->write(net::encode_hello(hello));
    ASSERT_TRUE(world.run_until([&] { return connection->closed; }, 1s));
    EXPECT_NE(connection->find(FrameKind::fenced), nullptr);
  }
  EXPECT_THAT(a.endpoint->sessions(), IsEmpty());
  EXPECT_THAT(a.recorder->gone, IsEmpty());
}

TEST(Hello, L6_L7_AnAnswerThatCannotBeTrueEndsTheSessionOnBothSides) {
  for (const bool of_bulk : {false, true}) {
    SCOPED_TRACE(of_bulk);
    NetWorld world;
    Node a = world.node("a");
    RawPeer peer(world, "peer");
    a.endpoint->session(peer.record)
        ->send({.type = plain, .payload = {.bytes = std::string(size_t{8} << 20U, 'x')}}, net::Admission::always);
    auto first = peer.dialled();
    first->write(net::encode_hello(peer.hello(a)));
    ASSERT_TRUE(world.run_until([&] { return !first->chunks.empty(); }, 1s));
    net::Hello answer = peer.hello(a);
    answer.last_handled = of_bulk ? 1 : 2;
    if (of_bulk) answer.unfinished_bulks = {{1, 0, uint64_t{9} << 20U}};
    first->channel->link().close();
    ASSERT_TRUE(world.run_until([&] { return peer.accepted.size() == 2 && !peer.accepted[1]->frames.empty(); }, 10s));
    auto second = peer.accepted[1];
    second->write(net::encode_hello(answer));
    ASSERT_TRUE(world.run_until([&] { return second->closed; }, 1s));
    EXPECT_NE(second->find(FrameKind::fenced), nullptr);
    ASSERT_TRUE(a.recorder->gone.contains(peer.record.incarnation));
    EXPECT_EQ(a.recorder->gone.at(peer.record.incarnation).reason, GoneReason::fenced);
  }
}

TEST(Hello, W2_AStrangerIsToldNeitherNameNorIncarnation) {
  NetWorld world;
  Node a = world.node("the-secret-name");
  RawPeer stranger(world, "stranger");
  net::Hello guess = stranger.hello(a), newer = stranger.hello(a);
  guess.yours = Incarnation{42};
  newer.version = 9;
  wire::ByteWriter incarnation;
  incarnation.put(static_cast<uint64_t>(a.incarnation()));
  for (const net::Hello& hello : {guess, newer}) {
    auto connection = stranger.dial(a.endpoint->record());
    connection->write(net::encode_hello(hello));
    ASSERT_TRUE(world.run_until([&] { return connection->closed; }, 1s));
    ASSERT_EQ(connection->frames.size(), 1U);
    std::string told;
    net::encode(told, connection->frames[0].first);
    told += connection->frames[0].second;
    EXPECT_THAT(told, Not(HasSubstr("the-secret-name")));
    EXPECT_THAT(told, Not(HasSubstr(incarnation.bytes())));
  }
}

TEST(Hello, W15_ARecordsNameKeepsTheRuleAndItsPlacesAreOneLine) {
  net::Hello good;
  good.mine = {.name = "worker1", .incarnation = Incarnation{1}, .host = "host", .unix_path = "/tmp/\xc3\xb6 1/s"};
  const auto refusal = [&](const std::function<void(net::Record&)>& bend) {
    net::Hello hello = good;
    bend(hello.mine);
    const std::string payload = net::encode_hello(hello).substr(net::frame_header_size);
    return thrown<wire::MalformedError>([&] { (void)net::decode_hello(payload); });
  };
  EXPECT_NO_THROW(net::decode_hello(net::encode_hello(good).substr(net::frame_header_size)));
  for (const std::string& name : {std::string(), std::string("a\nERROR"), std::string(129, 'n')})
    EXPECT_THAT(refusal([&](net::Record& record) { record.name = name; }),
                AllOf(HasSubstr("a record's name"), Not(HasSubstr("\n"))));
  for (const std::string& text : {std::string("a\x1b[2J"), std::string(600, 'n')}) {
    for (std::string net::Record::* place : {&net::Record::host, &net::Record::unix_path, &net::Record::tcp_address})
      EXPECT_THAT(refusal([&](net::Record& record) { record.*place = text; }),
                  AllOf(HasSubstr("a record of worker1"), Not(HasSubstr("\x1b"))));
  }
}

TEST(Hello, W15_WhatAnIncompatibleWorkerSaysIsBoundedAndOneLine) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  a.endpoint->session(peer.record);
  peer.dialled()->write(RawPeer::frame(FrameKind::incompatible, "no\nERROR: " + std::string(2000, 'x')));
  ASSERT_TRUE(world.run_until([&] { return a.recorder->gone.contains(peer.record.incarnation); }, 1s));
  const std::string why = a.recorder->gone.at(peer.record.incarnation).why;
  EXPECT_THAT(why, HasSubstr("no\\x0aERROR"));
  EXPECT_LT(why.size(), 500U);
}

TEST(Session, W13_OfAnEndedSessionOnlyItsEndIsKept) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  const std::weak_ptr<net::Session> session = a.endpoint->session(peer.record);
  std::shared_ptr<const net::Record> record;
  {
    const std::shared_ptr<net::Session> held = session.lock();
    record = held->peer_record();
    auto connection = peer.dialled();
    connection->write(net::encode_hello(peer.hello(a)));
    ASSERT_TRUE(world.run_until([&] { return held->statistics().linked; }));
    connection->write(net::encode_plain(FrameKind::fenced));
    ASSERT_TRUE(world.run_until([&] { return held->ended(); }, 1s));
  }
  world.loop->run_for(1ms);
  EXPECT_TRUE(session.expired()) << "a record that is kept keeps no session";
  EXPECT_EQ(record->name, "peer");
  try {
    a.endpoint->session(peer.record);
    FAIL() << "a new session with the dead";
  } catch (const PeerGoneError& error) {
    EXPECT_EQ(error.worker(), "peer");
    EXPECT_EQ(error.reason(), GoneReason::fenced);
  }
  EXPECT_EQ(a.endpoint->find(peer.record.incarnation), nullptr);
  EXPECT_THAT(a.endpoint->sessions(), IsEmpty());
  // L8: it is told so, and nothing else happens.
  auto again = peer.dial(a.endpoint->record());
  again->write(net::encode_hello(peer.hello(a, 1000)));
  ASSERT_TRUE(world.run_until([&] { return again->closed; }, 1s));
  EXPECT_NE(again->find(FrameKind::fenced), nullptr);
  EXPECT_THAT(a.endpoint->sessions(), IsEmpty());
}

}  // namespace
}  // namespace gradwire::testing
