// Bytes that no session wrote, on a simulated network: what is malformed costs the link, and no more than the session.
#include <cstring>

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/support/net_world.h"
#include "tests/support/thrown.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Session, C21_BadBytesCloseTheLinkAndTheMessageComesAgain) {
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
    ASSERT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::hello) != nullptr; }));
    std::string bad = RawPeer::message(1, "one");
    bad[net::frame_header_size + 2] = '\x7f';  // a head longer than the frame
    connection->write(bad);
    ASSERT_TRUE(world.run_until([&] { return connection->closed; }));
    EXPECT_EQ(a.recorder->gone.contains(peer.record.incarnation), attempt == 2);
  }
  EXPECT_EQ(a.recorder->gone.at(peer.record.incarnation).reason, GoneReason::fenced);
}

TEST(Session, BadBytesAreForgivenOncePerMessage) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  const auto& heads = a.recorder->heads[peer.record.incarnation];
  uint64_t attempt = 0;
  const auto linked = [&] {
    auto connection = peer.dial(a.endpoint->record());
    connection->write(net::encode_hello(peer.hello(a, attempt += 10)));
    EXPECT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::hello) != nullptr; }));
    return connection;
  };
  for (uint64_t number = 1; number <= 3; ++number) {
    auto hurt = linked();
    hurt->write(std::string(100, '\xff'));
    ASSERT_TRUE(world.run_until([&] { return hurt->closed; }));
    linked()->write(RawPeer::message(number, "again"));
    ASSERT_TRUE(world.run_until([&] { return heads.size() == number; })) << number;
  }
  EXPECT_THAT(a.recorder->gone, IsEmpty());
}

std::string chunk(uint64_t number, uint32_t part, uint64_t offset, size_t size) {
  wire::ByteWriter payload;
  payload.put(part);
  payload.put(offset);
  payload.put_bytes(std::string(size, 'c'));
  return RawPeer::frame(net::FrameKind::chunk, payload.bytes(), number);
}

// The first message of a session, after `bend` has written over it. Before its placements stand the length of its bytes
// (u64), the number of its tensors (u32) and their descriptions (14 bytes for one of one dimension).
std::string bent(net::Message message, const std::function<void(net::Outgoing&)>& bend) {
  net::Outgoing outgoing;
  net::encode_message(outgoing, std::move(message), nullptr, *RawPeer::blocks);
  net::patch_number(outgoing.frame.data(), 1);
  bend(outgoing);
  const auto payload_size = static_cast<uint32_t>(outgoing.frame.size() - net::frame_header_size);
  std::memcpy(outgoing.frame.data(), &payload_size, sizeof payload_size);
  return outgoing.frame;
}
template <class Number>
void write_over(net::Outgoing& outgoing, std::ptrdiff_t from_placements, Number number) {
  std::memcpy(outgoing.frame.data() + outgoing.placements_at + from_placements, &number, sizeof number);
}

TEST(Session, C21_WhateverIsMalformedClosesTheLinkAndTheReasonIsTold) {
  using net::FrameKind;
  using net::Outgoing;
  using net::Placement;
  std::string reserved = net::encode_plain(FrameKind::ping);
  reserved[5] = 1;
  const net::Message plain_one{.type = plain, .head = "one"};
  const net::Message with_tensor{.type = plain, .payload = {.tensors = {at::ones({3})}}};
  // Its 100,000 bytes come in chunks.
  const std::string streamed = bent({.type = plain, .payload = {.bytes = std::string(100000, 'b')}}, [](Outgoing&) {});
  struct Case {
    std::string why;
    std::string bytes;
    std::string before = "";  // said once, on the first link
  };
  const std::vector<Case> cases = {
      {"frame of unknown kind 0", net::encode_plain(FrameKind{0})},
      {"frame of unknown kind 13", net::encode_plain(FrameKind{13})},
      {"reserved bytes", reserved},
      {"frame of 16777217 bytes; 16777216 is the most",
       RawPeer::frame(FrameKind::message, std::string((16U << 20U) + 1, 'x'))},
      {"frame of kind 1 after Hello", net::encode_plain(FrameKind::hello)},
      {"frame of kind 2 after Hello", net::encode_plain(FrameKind::refused)},
      {"bytes are wanted", RawPeer::frame(FrameKind::message, "x", 1)},
      {"bytes are wanted", bent(plain_one, [](Outgoing& o) { o.frame.pop_back(); })},
      {"message of unknown type 5", bent({.type = net::MessageType{5}}, [](Outgoing&) {})},
      {"message with 1000 tensors", bent(plain_one, [](Outgoing& o) { write_over(o, -4, uint32_t{1000}); })},
      {"a tensor of unknown kind 99", bent(with_tensor, [](Outgoing& o) { write_over(o, -14, '\x63'); })},
      {"part in an unknown kind of place", bent(plain_one, [](Outgoing& o) { write_over(o, 0, '\3'); })},
      {"bytes cannot be in a segment",
       bent(plain_one, [](Outgoing& o) { write_over(o, 0, static_cast<uint8_t>(Placement::segment)); })},
      {"part of 12 bytes in segment 0, which is unknown",
       bent(with_tensor, [](Outgoing& o) { write_over(o, 9, static_cast<uint8_t>(Placement::segment)); })},
      {"message with 1 bytes", bent(plain_one, [](Outgoing& o) { o.frame += 'x'; })},
      {"more bytes than can be counted", bent(with_tensor,
                                              [](Outgoing& o) {
                                                write_over(o, -26, UINT64_MAX);
                                                for (int part : {0, 1})
                                                  write_over(o, 9 * part, static_cast<uint8_t>(Placement::stream));
                                              })},
      {"chunk without a place", RawPeer::frame(FrameKind::chunk, "1234", 1)},
      {"10 bytes at 1 of 100000, expected at 0", chunk(1, 0, 1, 10), streamed},
      {"100001 bytes at 0 of 100000, expected at 0", chunk(1, 0, 0, 100001), streamed},
      {"end of a bulk 1/0 that is not under way", RawPeer::frame(FrameKind::bulk_finished, std::string(4, '\0'), 1)},
      {"bytes are wanted", RawPeer::frame(FrameKind::bulk_finished, "x", 1)},
      {"3 segments announced in 16 bytes",
       RawPeer::frame(FrameKind::segments, std::string("\3\0\0\0", 4) + std::string(16, 's'))},
      {"segment 7 freed that was not lent",
       RawPeer::message(1, std::string("\7\0\0\0\0\0\0\0", 8), 0, net::MessageType::free_segments)},
      // Lists of segments that end in the middle of a number.
      {"bytes are wanted", RawPeer::message(1, "\7", 0, net::MessageType::free_segments)},
      {"bytes are wanted", RawPeer::message(1, "\7", 0, net::MessageType::retire_segments)},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.why);
    NetWorld world;
    Node a = world.node("a");
    RawPeer peer(world, "peer");
    for (uint64_t attempt = 1; attempt <= 2; ++attempt) {
      ASSERT_THAT(a.recorder->gone, IsEmpty());
      auto connection = peer.dial(a.endpoint->record());
      connection->write(net::encode_hello(peer.hello(a, 10 * attempt)));
      ASSERT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::hello) != nullptr; }));
      if (attempt == 1) connection->write(one.before);
      connection->write(one.bytes);
      ASSERT_TRUE(world.run_until([&] { return connection->closed; }, 1s)) << "link " << attempt;
    }
    ASSERT_TRUE(a.recorder->gone.contains(peer.record.incarnation));
    EXPECT_THAT(a.recorder->gone.at(peer.record.incarnation).why,
                AllOf(HasSubstr("malformed twice"), HasSubstr(one.why)));
  }
}

TEST(Session, C21_AConnectionThatDoesNotSpeakTheProtocolIsClosed) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  const std::string hello = net::encode_hello(peer.hello(a));
  const auto bent_hello = [&](const std::function<void(net::Hello&)>& bend) {
    net::Hello one = peer.hello(a);
    bend(one);
    return net::encode_hello(one).substr(net::frame_header_size);
  };
  const std::string payload = bent_hello([](net::Hello&) {});
  const std::vector<std::string> openings = {
      "GET / HTTP/1.1\r\nHost: worker\r\n\r\n",
      std::string(100, '\0'),
      std::string(100, '\xff'),
      RawPeer::message(1, "no Hello"),
      RawPeer::frame(net::FrameKind::message, payload),
      RawPeer::frame(net::FrameKind::hello, "WIREGRAD" + payload.substr(8)),
      RawPeer::frame(net::FrameKind::hello, payload.substr(0, payload.size() - 1)),
      RawPeer::frame(net::FrameKind::hello,
                     payload.substr(0, payload.size() - 1) + '\1'),  // segments that are not there
      RawPeer::frame(net::FrameKind::hello,
                     bent_hello([](net::Hello& one) { one.mine.incarnation = Incarnation::none; })),
      // Longer than any frame: that is seen before it has come.
      RawPeer::frame(net::FrameKind::hello, std::string(net::largest_frame_payload + 1, 'x')).substr(0, 100),
  };
  for (size_t i = 0; i < openings.size(); ++i) {
    auto connection = peer.dial(a.endpoint->record());
    connection->write(openings[i]);
    ASSERT_TRUE(world.run_until([&] { return connection->closed; }, 1s)) << i;
    EXPECT_THAT(connection->frames, IsEmpty()) << i;
  }
  EXPECT_THAT(a.endpoint->sessions(), IsEmpty());
  auto connection = peer.dial(a.endpoint->record());
  connection->write(hello);
  ASSERT_TRUE(world.run_until([&] { return connection->find(net::FrameKind::hello) != nullptr; }))
      << "the worker lives";
}

TEST(Hello, C21_ThatListsMoreThanItHoldsIsRefusedBeforeAnythingIsAllocated) {
  const std::string empty =
      net::encode_hello({.mine = {.name = "w", .incarnation = Incarnation{1}}}).substr(net::frame_header_size);
  const auto refusal = [&](size_t count_at) {
    std::string payload = empty;
    payload[payload.size() - count_at + 3] = '\1';  // 2^24 of them
    return thrown<wire::MalformedError>([&] { (void)net::decode_hello(payload); });
  };
  EXPECT_EQ(refusal(8), "Hello lists 16777216 bulks, and ends before them");
  EXPECT_EQ(refusal(4), "Hello lists 16777216 segments, and ends before them");
}

TEST(Session, C21_AnAnswerToHelloThatIsNoneEndsTheDialAndItDialsAgain) {
  for (int which = 0; which < 5; ++which) {
    SCOPED_TRACE(which);
    NetWorld world;
    Node a = world.node("a");
    RawPeer peer(world, "peer"), stranger(world, "stranger");
    net::Hello for_another = peer.hello(a);
    for_another.yours = Incarnation{42};
    auto session = a.endpoint->session(peer.record);
    const std::string answers[] = {std::string(100, '\xff'), RawPeer::message(1, "early"), chunk(1, 0, 0, 1),
                                   net::encode_hello(stranger.hello(a)), net::encode_hello(for_another)};
    peer.dialled()->write(answers[which]);
    ASSERT_TRUE(world.run_until([&] { return peer.accepted[0]->closed && peer.accepted.size() == 2; }, 1s));
    EXPECT_FALSE(session->ended());
    EXPECT_THAT(a.recorder->heads[peer.record.incarnation], IsEmpty());
  }
}

}  // namespace
}  // namespace gradwire::testing
