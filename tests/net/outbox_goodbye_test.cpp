// A leaver with bytes that its peer has not confirmed: its goodbye waits for them, on the links that follow too.
#include <ATen/ops/arange.h>
#include <gmock/gmock.h>

#include "tests/support/net_world.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;

TEST(Session, L9_GoodbyeDoesNotOvertakeBytesThatAreSentAgain) {
  NetWorld world;
  Node a = world.node("a");
  RawPeer peer(world, "peer");
  auto first = peer.dial(a.endpoint->record());
  first->write(net::encode_hello(peer.hello(a)));
  ASSERT_TRUE(world.run_until([&] { return first->find(net::FrameKind::hello) != nullptr; }));
  const auto session = a.endpoint->session(peer.record);
  session->send({.type = plain, .payload = {.tensors = {at::arange(64 * 1024)}}}, net::Admission::always);
  ASSERT_TRUE(world.run_until([&] { return first->chunks.size() == 2; }));
  bool left = false;
  a.endpoint->leave(60s, [&] { left = true; });
  first->write(net::encode_plain(net::FrameKind::acknowledgement, 0, 1));
  world.loop->run_for(1s);
  EXPECT_EQ(session->statistics().sent, 1U) << "the peer has the head of the message, and has not confirmed its bytes";

  // The link is lost, and the bytes with it.
  net::Hello hello = peer.hello(a, 5);
  hello.last_handled = 1;
  hello.unfinished_bulks = {{.number = 1, .part = first->chunks.at(0).part, .offset = 0}};
  auto second = peer.dial(a.endpoint->record());
  second->write(net::encode_hello(hello));
  ASSERT_TRUE(world.run_until([&] { return second->chunks.size() == 2; }));
  world.loop->run_for(1s);
  EXPECT_EQ(second->find(net::FrameKind::message), nullptr) << "goodbye, before the bytes are confirmed";

  wire::ByteWriter part;
  part.put(second->chunks.at(0).part);
  std::string finished = RawPeer::frame(net::FrameKind::bulk_finished, part.bytes(), 1);
  net::patch_acknowledged(finished.data(), 1);
  second->write(finished);
  ASSERT_TRUE(world.run_until([&] { return second->find(net::FrameKind::message) != nullptr; }));
  EXPECT_EQ(second->find(net::FrameKind::message)->number, 2U);
  EXPECT_FALSE(left);
  second->write(net::encode_plain(net::FrameKind::acknowledgement, 0, 2));
  EXPECT_TRUE(world.run_until([&] { return left; }, 1s));
  EXPECT_EQ(a.recorder->gone.at(peer.record.incarnation).reason, GoneReason::left);
}

}  // namespace
}  // namespace gradwire::testing
