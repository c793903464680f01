// What becomes of a session when reading fails here, through no fault of the peer: no memory for what arrives.
#include <atomic>
#include <stdexcept>

#include <gmock/gmock.h>

#include "gradwire/net/signal.h"

#include "tests/support/faulty_transport.h"
#include "tests/support/net_world.h"
#include "tests/support/socket_end.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct FaultyPair {
  FaultyPair()
      : a(world.node("a")),
        b(world.node("b", {}, make_incarnation(),
                     std::make_shared<FaultyTransport>(world.network.transport(), faults))) {
    world.link(a, b);
  }
  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  NetWorld world;
  Node a, b;
};

TEST(SessionReading, F3_AfterAReadThatFailsTheLinkIsMadeAnewAndNothingIsLost) {
  FaultyPair pair;
  pair.faults->left = 1;
  for (const char* head : {"one", "poison", "two"}) pair.world.send(pair.a, pair.b, head);
  EXPECT_TRUE(pair.world.run_until([&] { return pair.world.received(pair.b, pair.a).size() == 4; }));
  EXPECT_THAT(pair.world.received(pair.b, pair.a), ElementsAre("x", "one", "poison", "two"));
  EXPECT_EQ(pair.faults->happened, 1);
  EXPECT_GE(pair.world.session(pair.b, pair.a)->statistics().links, 2U);
  EXPECT_THAT(pair.b.recorder->gone, IsEmpty());
}

TEST(SessionReading, F3_AMessageThatCannotBeReadTwiceEndsItsSession) {
  FaultyPair pair;
  pair.faults->left = 1000;
  pair.world.send(pair.a, pair.b, "poison");
  EXPECT_TRUE(pair.world.run_until([&] {
    return pair.b.recorder->gone.contains(pair.a.incarnation()) && pair.a.recorder->gone.contains(pair.b.incarnation());
  }));
  EXPECT_EQ(pair.b.recorder->gone.at(pair.a.incarnation()).reason, GoneReason::fenced);
  EXPECT_EQ(pair.a.recorder->gone.at(pair.b.incarnation()).reason, GoneReason::fenced);
  EXPECT_GE(pair.faults->happened, 2);
}

// Two workers on sockets, the first of which may fail to read.
struct FaultySockets {
  FaultySockets() {
    endpoint = net::Endpoint::open(
        {.loop = runtime,
         .transport = std::make_shared<FaultyTransport>(net::make_socket_transport(runtime, {}), faults),
         .budget = std::make_shared<net::SegmentBudget>(0),
         .handler = handler},
        {.name = "a", .incarnation = make_incarnation()}, {});
    session = endpoint->session(other.record());
  }
  ~FaultySockets() { endpoint->close(); }
  // The other sends it back.
  void ask(const std::string& head) {
    session->send({.type = net::MessageType{17}, .head = head}, net::Admission::always);
  }
  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  std::shared_ptr<net::Runtime> runtime = net::Runtime::of_process();
  std::shared_ptr<Echo> handler = std::make_shared<Echo>();
  SocketEnd other{"b"};
  std::shared_ptr<net::Endpoint> endpoint;
  std::shared_ptr<net::Session> session;
};

TEST(SessionReading, F3_AThreadThatWaitsAndCannotReadStillGetsItsAnswer) {
  FaultySockets pair;
  net::Signal signal;
  for (int round = 1; round <= 20; ++round) {
    pair.faults->left = 1;
    pair.ask("poison");
    // No one wakes it: it wakes by what it reads itself, or after a moment.
    const auto answered = [&] { return pair.handler->count() == static_cast<size_t>(round); };
    EXPECT_TRUE(wait_until([&] {
      return signal.wait(*pair.runtime, pair.session.get(), answered, std::chrono::steady_clock::now() + 20ms);
    }));
  }
  EXPECT_EQ(pair.faults->happened, 20);
  EXPECT_THAT(pair.handler->gone(), IsEmpty()) << pair.handler->why();
}

TEST(SessionReading, F3_AThreadThatLeavesItsWaitByAnExceptionGivesTheLinkAndItsWakerBack) {
  FaultySockets pair;
  net::Signal signal;
  pair.ask("first");
  EXPECT_TRUE(wait_until([&] { return pair.handler->count() == 1; }));
  int looks = 0;
  const auto done = [&] {
    // The third look is the first with the link claimed.
    if (++looks == 3) throw std::runtime_error("no more patience");
    return false;
  };
  EXPECT_THROW(signal.wait(*pair.runtime, pair.session.get(), done), std::runtime_error);
  signal.notify();  // of those that wait, who are none
  pair.ask("second");
  EXPECT_TRUE(wait_until([&] { return pair.handler->count() == 2; })) << "no one reads the link any more";
}

}  // namespace
}  // namespace gradwire::testing
