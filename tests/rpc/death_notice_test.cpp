// How the members of a group learn that one of them is gone: all of them, and only when it is true.
#include <algorithm>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "gradwire/gradwire.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using ::testing::ElementsAre;
using testing::eventually;
using ::testing::IsEmpty;

constexpr Function<int(int)> echo{"echo"};
constexpr Function<int()> hold{"hold"};

Registry make_registry() {
  Registry registry;
  registry.add(echo, [](int x) { return x; });
  registry.add(hold, [] {
    eventually([] { return cancelled(); });
    return 0;
  });
  return registry;
}

// What on_peer_event told: "worker1 joined".
class Heard {
 public:
  explicit Heard(Worker& worker) {
    worker.on_peer_event([shared = shared_](const PeerEvent& event) {
      const std::scoped_lock lock(shared->mutex);
      shared->events.push_back(event.name + " " + std::string(name_of(event.kind)));
    });
  }
  std::vector<std::string> events() const {
    const std::scoped_lock lock(shared_->mutex);
    return shared_->events;
  }
  bool hears(const std::string& event) const {
    return eventually([&] { return std::ranges::count(events(), event) > 0; });
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::vector<std::string> events;
  };
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

std::vector<std::string> names(Worker& worker) {
  std::vector<std::string> names;
  for (const Peer& peer : worker.peers()) names.push_back(peer.name());
  return names;
}

net::Record record_of(Worker& worker) { return WorkerAccess::core(worker).record(); }

// A growing group on a store that the test writes to as well.
class DeathNotice : public ::testing::Test {
 protected:
  std::unique_ptr<Worker> join(const std::string& name, std::chrono::milliseconds peer_timeout = 30s) {
    return Worker::join(
        make_registry(),
        {.name = name, .store = store, .transport = network->transport(), .peer_timeout = peer_timeout});
  }
  const std::shared_ptr<net::Runtime> runtime = net::Runtime::of_process();
  const std::shared_ptr<net::MemoryNetwork> network = std::make_shared<net::MemoryNetwork>(runtime);
  const net::StorePointer store = c10::make_intrusive<c10d::HashStore>();
  net::MeetingPoint meeting_point{store};
  using Kind = net::MeetingPoint::Event::Kind;
};

TEST(DeathNotices, N2_ADeathThatOneMemberFindsBecomesKnownToAllMembers) {
  Cluster cluster(make_registry());
  for (const char* name : {"finder", "watcher", "bystander", "victim"}) cluster.add(name);
  const Heard heard(cluster["watcher"]);
  EXPECT_THAT(names(cluster["bystander"]), ElementsAre("finder", "watcher", "bystander", "victim"));
  cluster["finder"].peer("victim").call(echo, 1).get();
  cluster.kill("victim");
  EXPECT_TRUE(heard.hears("victim died"));
  EXPECT_TRUE(eventually([&] { return names(cluster["bystander"]).size() == 3; }));
  EXPECT_THAT(names(cluster["bystander"]), ElementsAre("finder", "watcher", "bystander"));
}

// A peer that has a session with the finder hears of it even where the store is gone.
TEST_F(DeathNotice, N2_AHintFromAPeerIsVerifiedAtOnce) {
  auto finder = join("finder"), other = join("other"), victim = join("victim");
  const Heard heard(*other);
  finder->peer("other").call(echo, 1).get();
  finder->peer("victim").call(echo, 1).get();
  WorkerAccess::core(*victim).abandon("was killed");
  EXPECT_TRUE(heard.hears("victim died"));
}

TEST_F(DeathNotice, N2_AForgedHintDeclaresNoLivingWorkerDead) {
  auto worker = join("worker"), living = join("living"), dead = join("dead");
  const Heard heard(*worker);
  // Both in the store, one of them with another address than the worker's own, and from a peer.
  meeting_point.hint_gone(record_of(*living));
  net::Record elsewhere = record_of(*living);
  elsewhere.unix_path = "nowhere";
  elsewhere.tcp_address = "192.0.2.1:1";
  meeting_point.add_event({.kind = Kind::said_gone, .record = elsewhere});
  meeting_point.add_event({.kind = Kind::left, .record = elsewhere});
  wire::ByteWriter head;
  head.put(static_cast<uint64_t>(record_of(*living).incarnation));
  WorkerAccess::core(*dead)
      .endpoint()
      ->session(record_of(*worker))
      ->send({.type = net::MessageType{28}, .head = head.take()}, net::Admission::always);
  // The same hints about one that is really gone come after these, and are found true.
  WorkerAccess::core(*dead).abandon("was killed");
  meeting_point.hint_gone(record_of(*dead));
  EXPECT_TRUE(heard.hears("dead died"));
  EXPECT_THAT(heard.events(), ElementsAre("dead died"));
  EXPECT_THAT(names(*worker), ElementsAre("worker", "living"));
  EXPECT_EQ(worker->peer("living").call(echo, 1).get(), 1);
}

TEST_F(DeathNotice, N2_APartitionOnOneSideIsNoDeathToTheOthers) {
  auto cut_off = join("cut_off", 400ms), other = join("other", 400ms), living = join("living", 400ms);
  const Heard heard(*other), heard_by_cut_off(*cut_off);
  cut_off->peer("living").call(echo, 1).get();
  network->cut("cut_off", "living");
  EXPECT_TRUE(heard_by_cut_off.hears("living died"));
  // The hint has been read when the session that it led to is there.
  EXPECT_TRUE(eventually(
      [&] { return WorkerAccess::core(*other).endpoint()->find(record_of(*living).incarnation) != nullptr; }));
  EXPECT_EQ(other->peer("living").call(echo, 1).get(), 1);
  EXPECT_THAT(names(*other), ElementsAre("cut_off", "other", "living"));
  EXPECT_THAT(heard.events(), IsEmpty());
  EXPECT_THAT(names(*cut_off), ElementsAre("cut_off", "other"));
}

TEST_F(DeathNotice, N2_AnOrderlyLeaverIsNeverReportedAsDied) {
  auto worker = join("worker"), watcher = join("watcher"), leaver = join("leaver");
  const Heard heard(*worker), heard_by_watcher(*watcher);
  worker->peer("leaver").call(echo, 1).get();
  const net::Record left = record_of(*leaver);
  leaver->leave();
  meeting_point.hint_gone(left);  // by one that missed the goodbye
  EXPECT_TRUE(heard.hears("leaver left"));
  EXPECT_TRUE(heard_by_watcher.hears("leaver left"));
  // A second one, whose hint is read before its own event.
  auto second = join("second");
  EXPECT_TRUE(heard_by_watcher.hears("second joined"));
  const net::Record before = record_of(*second);
  WorkerAccess::core(*second).abandon("ends");
  meeting_point.add_event({.kind = Kind::left, .record = before});
  meeting_point.hint_gone(before);
  EXPECT_TRUE(heard_by_watcher.hears("second left"));
  for (const std::string& event : heard_by_watcher.events())
    EXPECT_THAT(event, ::testing::Not(::testing::HasSubstr("died")));
}

TEST_F(DeathNotice, N24_OneThatWasNotThereBeforeIsReportedAsJoinedFirst) {
  auto watcher = join("watcher");
  const Heard heard(*watcher);
  std::vector<std::string> expected;
  for (int i = 0; i < 20; ++i) {
    // It calls the watcher before the watcher reads of it, and dies.
    const std::string name = "victim" + std::to_string(i);
    auto victim = join(name);
    victim->peer("watcher").call(echo, 1).get();
    WorkerAccess::core(*victim).abandon("was killed");
    expected.push_back(name + " joined");
    expected.push_back(name + " died");
  }
  EXPECT_TRUE(heard.hears(expected.back()));
  EXPECT_THAT(heard.events(), ::testing::ElementsAreArray(expected));
}

TEST_F(DeathNotice, N24_TheEndOfAnEarlierLifeIsReportedBeforeTheNextOne) {
  auto watcher = join("watcher"), other = join("other");
  const Heard heard(*watcher);
  std::vector<std::string> expected;
  for (int life = 0; life < 10; ++life) {
    // The watcher has no session with it: it reads in the store of both at once.
    WorkerAccess::core(*other).abandon("was killed");
    other = join("other");
    expected.insert(expected.end(), {"other died", "other joined"});
    EXPECT_TRUE(eventually([&] { return heard.events().size() == expected.size(); }));
  }
  EXPECT_THAT(heard.events(), ::testing::ElementsAreArray(expected));
}

TEST_F(DeathNotice, N24_TheEndOfALifeThatNobodyToldOfIsReportedToo) {
  auto watcher = join("watcher"), other = join("other");
  const Heard heard(*watcher);
  const net::Record before = record_of(*other);
  WorkerAccess::core(*other).abandon("was killed");
  // Its next life is found by its name before any event is read, and no event says that it is gone.
  net::Record next = before;
  next.incarnation = make_incarnation();
  EXPECT_EQ(meeting_point.claim_name(next, before), std::nullopt);
  EXPECT_EQ(watcher->peer("other").name(), "other");
  meeting_point.add_event({.kind = Kind::joined, .record = next});
  EXPECT_TRUE(heard.hears("other joined"));
  EXPECT_THAT(heard.events(), ElementsAre("other died", "other joined"));
}

TEST_F(DeathNotice, N24_OneThatTakesTheNameOfALivingWorkerIsReportedAllTheSame) {
  auto watcher = join("watcher"), other = join("other");
  const Heard heard(*watcher);
  const net::Record living = record_of(*other);
  net::Record forged = living;
  forged.incarnation = make_incarnation();
  meeting_point.hint_gone(living);
  meeting_point.add_event({.kind = Kind::joined, .record = forged});
  EXPECT_TRUE(heard.hears("other joined"));
  EXPECT_THAT(heard.events(), ElementsAre("other joined"));
}

TEST_F(DeathNotice, N23_APeerThatDiedIsAnErrorUntilItComesBack) {
  auto worker = join("worker"), victim = join("victim");
  Peer old = worker->peer("victim");
  old.call(echo, 1).get();
  const int rank = victim->rank();
  WorkerAccess::core(*victim).abandon("was killed");
  EXPECT_TRUE(eventually([&] {
    try {
      worker->peer("victim");
      return false;
    } catch (const PeerGoneError& error) {
      EXPECT_EQ(error.reason(), GoneReason::died);
      EXPECT_EQ(error.worker(), "victim");
      return true;
    }
  }));
  EXPECT_THROW(worker->peer(rank), PeerGoneError);
  std::thread later([&] { victim = join("victim"); });
  EXPECT_EQ(worker->wait_for("victim", 60s).call(echo, 2).get(), 2);
  later.join();
  EXPECT_EQ(worker->peer("victim").call(echo, 3).get(), 3);
  EXPECT_EQ(worker->peer(rank).call(echo, 3).get(), 3);
}

TEST_F(DeathNotice, N23_WaitingForAWorkerIsBoundedAndNamesIt) {
  auto worker = join("worker");
  try {
    worker->wait_for("nobody", 50ms);
    FAIL() << "no error";
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.worker(), "nobody");
  }
}

TEST_F(DeathNotice, N23_WaitingWithoutALimitWaits) {
  auto worker = join("worker");
  std::unique_ptr<Worker> other;
  std::thread later([&] { other = join("other"); });
  EXPECT_EQ(worker->wait_for("other", Worker::no_timeout).call(echo, 1).get(), 1);
  later.join();
}

TEST_F(DeathNotice, N8_AWorkerThatComesBackUnderItsNameKeepsItsRank) {
  auto first = join("first"), second = join("second");
  EXPECT_EQ(second->rank(), 1);
  for (int i = 0; i < 3; ++i) {
    WorkerAccess::core(*second).abandon("was killed");
    second.reset();
    second = join("second");
    EXPECT_EQ(second->rank(), 1);
  }
  EXPECT_EQ(join("third")->rank(), 2);
}

TEST_F(DeathNotice, F8_AWorkerStartedAgainIsFoundAlthoughNobodyWatchedItsDeath) {
  auto worker = join("worker"), other = join("other");
  EXPECT_THAT(names(*worker), ElementsAre("worker", "other"));  // known from here on, without a session
  WorkerAccess::core(*other).abandon("was killed");
  other = join("other");
  EXPECT_EQ(worker->peer("other").call(echo, 1).get(), 1);
  EXPECT_EQ(worker->peer(1).call(echo, 1).get(), 1);
}

TEST_F(DeathNotice, F5_NoCallbackRunsOnceOneHasDestroyedTheWorker) {
  auto worker = join("worker");
  std::atomic<int> first = 0, second = 0;
  std::atomic<bool> destroyed = false;
  worker->on_peer_event([&](const PeerEvent&) {
    ++first;
    worker.reset();
    destroyed = true;
  });
  worker->on_peer_event([&](const PeerEvent&) { ++second; });
  auto other = join("other");
  EXPECT_TRUE(eventually([&] { return destroyed.load(); }));
  // What is submitted now runs behind the delivery that was under way.
  std::atomic<bool> behind = false;
  runtime->submit([&] { behind = true; });
  EXPECT_TRUE(eventually([&] { return behind.load(); }));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
}

}  // namespace
}  // namespace gradwire
