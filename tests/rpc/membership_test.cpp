// Who is in the group: names, ranks, coming, going, coming back; leaving together (C20), dying (C2).
#include <atomic>
#include <mutex>
#include <semaphore>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using ::testing::HasSubstr;

constexpr Function<int(int)> echo{"echo"};
constexpr Function<int()> hold{"hold"};
constexpr Function<std::string()> who{"who"};

struct Observed {
  std::counting_semaphore<> release{0};
  std::atomic<int> entered = 0;
};

Registry make_registry(const std::shared_ptr<Observed>& observed = std::make_shared<Observed>()) {
  Registry registry;
  registry.add(echo, [](int x) { return x; });
  registry.add(hold, [observed] {
    ++observed->entered;
    observed->release.acquire();
    return 1;
  });
  registry.add(who, [] { return Worker::current().name(); });
  return registry;
}

template <class E, class Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
  }
  return "no error";
}

std::vector<std::string> names(Worker& worker) {
  std::vector<std::string> names;
  for (const Peer& peer : worker.peers()) names.push_back(peer.name());
  return names;
}

TEST(Membership, PeersAreFoundByNameAndRankAndListed) {
  Cluster cluster(3, make_registry());
  EXPECT_EQ(cluster[0].peer("worker2").rank(), 2);
  EXPECT_EQ(cluster[2].peer(0).name(), "worker0");
  EXPECT_EQ(names(cluster[1]), (std::vector<std::string>{"worker0", "worker1", "worker2"}));
  EXPECT_EQ(cluster[1].peer(2).call(who).get(), "worker2");
  EXPECT_EQ(cluster[1].self().call(who).get(), "worker1");
}

TEST(Membership, AnUnknownWorkerIsAnErrorThatListsThoseThereAre) {
  Cluster cluster(2, make_registry());
  EXPECT_EQ(error_of<NotFoundError>([&] { cluster[0].peer("worker7"); }),
            "there is no worker \"worker7\" in the group of worker0; there are: worker0, worker1");
  EXPECT_THAT(error_of<NotFoundError>([&] { cluster[0].peer(7); }), HasSubstr("of rank 7"));
}

TEST(Membership, ANameIsForOneWhileItAnswers) {
  Cluster cluster(make_registry());
  cluster.add("server");
  Worker& other = cluster.add("other");
  EXPECT_THAT(error_of<InvalidArgumentError>([&] { cluster.add("server"); }), HasSubstr("the name server is taken"));
  EXPECT_EQ(names(other), (std::vector<std::string>{"server", "other"}));
  EXPECT_THAT(error_of<InvalidArgumentError>([&] { cluster.add("with space"); }), HasSubstr("with space"));
  EXPECT_EQ(cluster["server"].self().call(echo, 1).get(), 1);
}

TEST(Membership, C24_ADashInANameOfAGrowingGroupIsFine) {
  Cluster cluster(make_registry());
  cluster.add("trainer-0");
  Worker& other = cluster.add("trainer-1");
  EXPECT_EQ(other.peer("trainer-0").call(who).get(), "trainer-0");
}

TEST(Membership, AGrowingGroupHandsOutRanksAndTellsOfNewcomers) {
  std::mutex mutex;
  std::vector<std::string> seen;
  Cluster cluster(make_registry());
  Worker& first = cluster.add();
  first.on_peer_event([&](const PeerEvent& event) {
    const std::scoped_lock lock(mutex);
    seen.push_back(event.name + " " + std::string(name_of(event.kind)));
  });
  const auto has_seen = [&](const std::string& text) {
    return testing::eventually([&] {
      const std::scoped_lock lock(mutex);
      return std::ranges::find(seen, text) != seen.end();
    });
  };
  EXPECT_EQ(first.rank(), 0);
  EXPECT_EQ(cluster.add().rank(), 1);
  EXPECT_EQ(cluster.add("third").rank(), 2);
  EXPECT_TRUE(has_seen("worker1 joined"));
  EXPECT_TRUE(has_seen("third joined"));
  EXPECT_EQ(names(first), (std::vector<std::string>{"worker0", "worker1", "third"}));
  // One with a session, one without.
  EXPECT_EQ(first.peer("third").call(who).get(), "third");
  cluster.kill("third");
  EXPECT_TRUE(has_seen("third died"));
  cluster["worker1"].leave();
  EXPECT_TRUE(has_seen("worker1 left"));
  EXPECT_EQ(names(first), (std::vector<std::string>{"worker0"}));
  cluster.restart("third");
  EXPECT_TRUE(testing::eventually([&] {
    const std::scoped_lock lock(mutex);
    return std::ranges::count(seen, "third joined") == 2;
  }));
  EXPECT_EQ(first.peer("third").call(echo, 4).get(), 4);
}

TEST(Membership, C2_OneDeadWorkerFailsItsCallsOnlyAndMayRejoinUnderItsName) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(3, make_registry(observed));
  Peer old = cluster[0].peer(2);
  Future<int> under_way = old.call(hold);
  ASSERT_TRUE(testing::eventually([&] { return observed->entered == 1; }));
  Future<int> other = cluster[0].peer(1).call(hold);
  cluster.kill("worker2");
  try {
    under_way.get();
    FAIL() << "no error";
  } catch (const PeerGoneError& error) {
    EXPECT_EQ(error.reason(), GoneReason::died);
    EXPECT_EQ(error.worker(), "worker2");
    EXPECT_THAT(error.what(), HasSubstr("\"hold\""));
  }
  EXPECT_THROW(old.call(echo, 1).get(), PeerGoneError);
  EXPECT_EQ(cluster[0].peer(1).call(echo, 1).get(), 1);
  Worker& again = cluster.restart("worker2");
  EXPECT_EQ(again.rank(), 2);
  EXPECT_EQ(cluster[0].peer("worker2").call(echo, 7).get(), 7);
  EXPECT_EQ(cluster[1].peer(2).call(echo, 7).get(), 7);
  EXPECT_EQ(again.peer(0).call(echo, 7).get(), 7);
  EXPECT_THROW(old.call(echo, 1).get(), PeerGoneError);  // nothing meant for the old one reaches the new one
  observed->release.release(2);
  EXPECT_EQ(other.get(), 1);
}

TEST(Membership, DestroyedWithoutLeaveIsSeenAsLeftNotDied) {
  Cluster cluster(2, make_registry());
  cluster[0].peer(1).call(echo, 1).get();
  Peer peer = cluster[0].peer(1);
  cluster.take("worker1").reset();
  try {
    peer.call(echo, 1).get();
    FAIL() << "no error";
  } catch (const PeerGoneError& error) {
    EXPECT_EQ(error.reason(), GoneReason::left);
  }
}

TEST(Membership, AWorkerThatHasLeftSaysSo) {
  Cluster cluster(1, make_registry());
  Peer self = cluster[0].self();
  cluster[0].leave();
  cluster[0].leave();
  EXPECT_THAT(error_of<InvalidArgumentError>([&] { self.call(echo, 1).get(); }), HasSubstr("worker0 has left"));
}

TEST(Leaving, ServesUntilEveryoneHasCalledIt) {
  Cluster cluster(4, make_registry());
  std::atomic<int> left = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      cluster[rank].leave();
      ++left;
    });
  // The others have called leave or are about to; they serve the last one, and each other.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(cluster[3].peer(i % 3).call(echo, i).get(), i);
  EXPECT_EQ(left, 0);
  cluster[3].leave();
  for (std::thread& thread : threads) thread.join();
}

TEST(Leaving, WaitsForCallsUnderWay) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(3, make_registry(observed));
  Future<int> under_way = cluster[1].peer(2).call(hold);
  ASSERT_TRUE(testing::eventually([&] { return observed->entered == 1; }));
  std::thread leaving([&] { cluster.leave(); });
  observed->release.release();
  leaving.join();
  EXPECT_EQ(under_way.get(), 1);
}

TEST(Leaving, C20_IsBoundedAndNamesThoseWaitedFor) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(4, make_registry(observed));
  Future<int> under_way = cluster[1].peer(2).call(hold);
  ASSERT_TRUE(testing::eventually([&] { return observed->entered == 1; }));
  std::vector<std::string> texts(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back(
        [&, rank] { texts[static_cast<size_t>(rank)] = error_of<TimeoutError>([&] { cluster[rank].leave(300ms); }); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) {
    EXPECT_THAT(text, HasSubstr("worker3 (has not called leave)"));
    EXPECT_THAT(text, HasSubstr("worker1 (has called leave; 1 calls under way, 0 functions running)"));
    EXPECT_THAT(text, HasSubstr("worker2 (has called leave; 0 calls under way, 1 functions running)"));
  }
  observed->release.release();
  EXPECT_EQ(under_way.get(), 1);
  cluster.leave();
}

TEST(Leaving, GoesOnWithoutTheDeadWhoeverTheyAre) {
  for (const std::string dead : {"worker0", "worker1", "worker3"}) {
    Cluster cluster(4, make_registry());
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) cluster[i].peer(j).call(echo, 1).get();
    std::thread leaving([&] {
      // All but the dead one.
      std::vector<std::thread> threads;
      for (int rank = 0; rank < 4; ++rank)
        if (const std::string name = "worker" + std::to_string(rank); name != dead)
          threads.emplace_back([&, name] { cluster[name].leave(); });
      for (std::thread& thread : threads) thread.join();
    });
    cluster.kill(dead);
    leaving.join();
  }
}

TEST(Leaving, OfAGrowingGroupWaitsForItsOwnCallsOnly) {
  auto observed = std::make_shared<Observed>();
  Cluster cluster(make_registry(observed));
  Worker& first = cluster.add();
  cluster.add();
  Future<int> under_way = first.peer(1).call(hold);
  EXPECT_THAT(error_of<TimeoutError>([&] { first.leave(50ms); }),
              HasSubstr("1 of its calls are under way (to worker1)"));
  observed->release.release();
  first.leave();
  EXPECT_EQ(under_way.get(), 1);
}

TEST(Joining, OfAFixedGroupThatIsNotCompleteNamesTheMissingRanks) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_THAT(error_of<TimeoutError>([&] {
                Worker::join(make_registry(), {.rank = 1, .world_size = 3, .store = store, .join_timeout = 100ms});
              }),
              HasSubstr("missing: rank 0, 2"));
  EXPECT_THROW(Worker::join(make_registry(), {.world_size = 3, .store = store}), InvalidArgumentError);
  EXPECT_THROW(Worker::join(make_registry(), {.rank = 3, .world_size = 3, .store = store}), InvalidArgumentError);
}

}  // namespace
}  // namespace gradwire
