// What the table of calls under way keeps: timers, and the counts by which a group knows that it may end.
#include "gradwire/rpc/calls.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/rpc/call_messages.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;

constexpr Function<int(int)> echo{"echo"};
constexpr Function<void()> hold{"hold"};

// Refuses the next request that is sent, after it has done what the test wants done in that moment.
class Refuser : public Passenger {
 public:
  explicit Refuser(std::shared_ptr<std::function<void()>> before) : before_(std::move(before)) {}
  uint8_t number() const override { return 201; }
  std::unique_ptr<Ticket> prepare(const net::Message& message, const std::shared_ptr<const net::Record>&) override {
    if (message.type != request_type || !*before_) return nullptr;
    const std::function<void()> act = std::exchange(*before_, nullptr);
    act();
    throw InvalidArgumentError("this request cannot be sent");
  }
  std::unique_ptr<Bag> arrived(const std::shared_ptr<const net::Record>&, net::MessageType, std::string_view,
                               const std::vector<wire::TensorDescription>&) override {
    return nullptr;
  }

 private:
  const std::shared_ptr<std::function<void()>> before_;  // used by the test's own thread
};

Registry make_registry(const std::shared_ptr<std::function<void()>>& before = nullptr) {
  Registry registry;
  registry.add(echo, [](int x) { return x; });
  registry.add(hold, [] { testing::eventually([] { return cancelled(); }); });
  if (before) registry.add_passenger([before](const PassengerPlace&) { return std::make_shared<Refuser>(before); });
  return registry;
}

// The error with which leaving fails, if it does: it would never end.
std::string leave_error(Worker& worker) {
  try {
    worker.leave(10s);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Calls, F1_TimersOfShortCallsDoNotPileUpWhileALongOneIsUnderWay) {
  Cluster cluster(2, make_registry());
  const Peer peer = cluster[0].peer(1);
  const std::shared_ptr<net::Runtime> runtime = net::Runtime::of_process();
  std::atomic<bool> over = false;
  std::thread long_calls([&] {
    Future<void> under_way = peer.with_timeout(600ms).call(hold);
    while (!over) {
      Future<void> next = peer.with_timeout(600ms).call(hold);
      EXPECT_THROW(under_way.get(), TimeoutError);
      under_way = std::move(next);
    }
    under_way.cancel();
  });
  size_t most = 0;
  auto next = std::chrono::steady_clock::now();
  for (const auto end = next + 12s; next < end; next += 1ms) {
    std::this_thread::sleep_until(next);  // the pace of the calls
    try {
      peer.with_timeout(5ms).call(echo, 1).get();
    } catch (const TimeoutError&) {
      // On a busy host; its timer counts like the others.
    }
    most = std::max(most, runtime->delays_outstanding());
  }
  over = true;
  long_calls.join();
  EXPECT_LT(most, 50U) << "of the workers' own there are a handful";
}

TEST(Calls, F7_ACallThatCannotBeSentIsNotCountedWhenItsPeerDiesMeanwhile) {
  auto before = std::make_shared<std::function<void()>>();
  Cluster cluster(3, make_registry(before));
  std::atomic<bool> noticed = false;
  cluster[0].on_peer_event([&](const PeerEvent& event) {
    if (event.name == "worker2" && event.kind == PeerEvent::Kind::died) noticed = true;
  });
  const Peer peer = cluster[0].peer(2);
  EXPECT_EQ(peer.call(echo, 1).get(), 1);
  *before = [&] {
    cluster.kill("worker2");
    EXPECT_TRUE(testing::eventually([&] { return noticed.load(); }));
  };
  EXPECT_THROW((void)peer.call(echo, 2), InvalidArgumentError);
  const std::unique_ptr<Worker> worker1 = cluster.take("worker1");
  std::string error_of_1;
  std::thread leaves([&] { error_of_1 = leave_error(*worker1); });
  EXPECT_EQ(leave_error(cluster[0]), "");
  leaves.join();
  EXPECT_EQ(error_of_1, "");
}

TEST(Calls, F7_AGroupLeavesAfterACallThatCouldNotBeSent) {
  auto before = std::make_shared<std::function<void()>>();
  Cluster cluster(2, make_registry(before));
  EXPECT_EQ(cluster[0].peer(1).call(echo, 1).get(), 1);
  *before = [] {};
  EXPECT_THROW((void)cluster[0].peer(1).call(echo, 2), InvalidArgumentError);
  const std::unique_ptr<Worker> worker1 = cluster.take("worker1");
  std::string error_of_1;
  std::thread leaves([&] { error_of_1 = leave_error(*worker1); });
  EXPECT_EQ(leave_error(cluster[0]), "");
  leaves.join();
  EXPECT_EQ(error_of_1, "");
}

TEST(Calls, C21_ARequestWhoseHeadHasBytesBehindItsEndIsDropped) {
  Cluster cluster(2, make_registry());
  const Peer peer = cluster[0].peer(1);
  EXPECT_EQ(peer.call(echo, 1).get(), 1);
  const auto arrived = [&] { return WorkerAccess::core(cluster[1]).calls().activity().requests_received; };
  const uint64_t before = arrived();
  const auto send = [&](const std::string& behind) {
    wire::ByteWriter head;
    head.put(uint64_t{1'000'000});  // no call of this number is under way: its reply is dropped
    head.put(static_cast<uint8_t>(Target::Kind::function));
    head.put_string("echo");
    head.put_string("");
    head.put_bytes(behind);
    WorkerAccess::core(cluster[0])
        .endpoint()
        ->session(WorkerAccess::core(cluster[1]).record())
        ->send({.type = request_type, .head = head.take()}, net::Admission::always);
    EXPECT_EQ(peer.call(echo, 2).get(), 2) << "the session goes on";  // it arrives after that, and is one more
  };
  send("");
  EXPECT_EQ(arrived() - before, 2U);
  send("x");
  EXPECT_EQ(arrived() - before, 3U);
  cluster.kill("worker1");  // by its counts the group would never be ready to leave
}

}  // namespace
}  // namespace gradwire
