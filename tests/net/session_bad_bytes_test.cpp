// Bytes that no session wrote, on a simulated network: what is malformed costs the link, and no more than the session.
#include <gmock/gmock.h>

#include "../support/net_world.h"

namespace gradwire::testing {
namespace {

using ::testing::IsEmpty;

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

}  // namespace
}  // namespace gradwire::testing
