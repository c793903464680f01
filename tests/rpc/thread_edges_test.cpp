// No exception crosses the edge of a thread: what users' code throws, of whatever type, becomes an error or a line in
// the log, and the process lives.
#include <atomic>

#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {

struct Thorn {};

// What its decoding throws is no std::exception.
template <>
struct Codec<Thorn> {
  static void encode(wire::Encoder& encoder, const Thorn&) { encoder.put(int32_t{1}); }
  static Thorn decode(wire::Decoder& decoder) {
    (void)decoder.take<int32_t>();
    throw 42;
  }
  static std::string signature() { return "Thorn"; }
};

namespace {

using testing::Cluster;

constexpr Function<int(int)> echo{"echo"};
constexpr Function<int(Thorn)> take_thorn{"take_thorn"};
constexpr Function<Thorn()> give_thorn{"give_thorn"};
constexpr Function<int()> throw_number{"throw_number"};

Registry make_registry() {
  Registry registry;
  registry.add(echo, [](int x) { return x; });
  registry.add(take_thorn, [](const Thorn&) { return 1; });
  registry.add(give_thorn, [] { return Thorn(); });
  registry.add(throw_number, []() -> int { throw 42; });
  return registry;
}

TEST(ThreadEdges, F10_ACodecThatThrowsNoStdExceptionFailsItsCallAlone) {
  Cluster cluster(2, make_registry());
  try {
    cluster[0].peer(1).call(take_thorn, Thorn()).get();
    ADD_FAILURE() << "no error";
  } catch (const InvalidArgumentError& error) {
    EXPECT_EQ(error.worker(), "worker1");
    EXPECT_NE(std::string(error.what()).find("take_thorn"), std::string::npos) << error.what();
  }
  EXPECT_THROW(cluster[0].peer(1).call(give_thorn).get(), int);  // decoded by the caller's own thread
  EXPECT_THROW(cluster[0].peer(1).call(throw_number).get(), RemoteError);
  EXPECT_EQ(cluster[0].peer(1).call(echo, 3).get(), 3);
}

TEST(ThreadEdges, F10_ACallbackForPeerEventsMayThrowAnything) {
  Cluster cluster(make_registry());
  Worker& first = cluster.add("first");
  std::atomic<int> joined = 0;
  first.on_peer_event([](const PeerEvent&) { throw 42; });
  first.on_peer_event([&](const PeerEvent& event) { joined += event.kind == PeerEvent::Kind::joined ? 1 : 0; });
  cluster.add("second");
  EXPECT_TRUE(testing::eventually([&] { return joined == 1; })) << "the other callback";
  cluster.add("third");
  EXPECT_TRUE(testing::eventually([&] { return joined == 2; })) << "the next event";
}

}  // namespace
}  // namespace gradwire
