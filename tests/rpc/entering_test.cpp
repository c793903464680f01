// How workers enter a group: a store of an earlier run, who is waited for, and for how long.
#include <sys/wait.h>

#include <filesystem>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "gradwire/gradwire.h"
#include "gradwire/net/meeting_point.h"
#include "gradwire/testing/processes.h"

#include "tests/support/captured_log.h"
#include "tests/support/free_port.h"
#include "tests/support/store_file.h"
#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StoreFile;

constexpr Function<int(int)> echo{"echo"};

Registry make_registry() {
  Registry registry;
  registry.add(echo, [](int x) { return x; });
  return registry;
}

// "RANK SIZE STORE": joins, and then does what it is told: "call RANK", "leave", "end" (without a goodbye).
int member(testing::Child& me) {
  std::istringstream given(me.argument());
  int rank = 0;
  int size = 0;
  std::string store;
  given >> rank >> size >> store;
  me.say("begins");
  auto worker = Worker::join(make_registry(), {.rank = rank, .world_size = size, .store_file = store});
  me.say("joined");
  for (;;) {
    std::istringstream order(me.hear());
    std::string what;
    order >> what;
    if (what == "call") {
      int other = 0;
      order >> other;
      try {
        me.say("answer " + std::to_string(worker->peer(other).call(echo, 7).get()));
      } catch (const Error& error) {
        me.say(error.what());
      }
    } else {
      if (what == "leave") worker->leave();
      me.say("left");
      return 0;
    }
  }
}

using Members = std::vector<std::unique_ptr<testing::Process>>;

std::unique_ptr<testing::Process> start(int rank, int size, const StoreFile& store) {
  auto process =
      testing::Processes().start(member, std::to_string(rank) + " " + std::to_string(size) + " " + store.path);
  process->expect("begins");
  return process;
}

// A whole run: all join, call and leave.
void run_once(const StoreFile& store, int size) {
  Members members;
  for (int rank = 0; rank < size; ++rank) members.push_back(start(rank, size, store));
  for (auto& each : members) each->expect("joined");
  for (int rank = 0; rank < size; ++rank) {
    members[rank]->say("call " + std::to_string((rank + 1) % size));
    members[rank]->expect("answer 7");
  }
  for (auto& each : members) each->say("leave");
  for (auto& each : members) each->expect("left");
  for (auto& each : members) EXPECT_EQ(each->wait(), 0);
}

bool has_joined(testing::Process& process, std::chrono::milliseconds limit) {
  try {
    process.expect("joined", limit);
    return true;
  } catch (const TimeoutError&) {
    return false;
  }
}

TEST(Entering, N5_ASecondRunWithTheSameStoreFileIsAGroupOfItsOwn) {
  StoreFile store;
  run_once(store, 2);
  // Rank 0 alone: it waits for the new worker1, and does not take the old one's record for it.
  const auto zero = start(0, 2, store);
  EXPECT_FALSE(has_joined(*zero, 500ms));
  const auto one = start(1, 2, store);
  for (auto* each : {zero.get(), one.get()}) each->expect("joined");
  zero->say("call 1");
  zero->expect("answer 7");
  for (auto* each : {zero.get(), one.get()}) each->say("leave");
  for (auto* each : {zero.get(), one.get()}) EXPECT_EQ(each->wait(), 0);
  run_once(store, 3);  // with more workers
}

TEST(Entering, N5_ARunThatNeverBecameWholeIsNotContinued) {
  StoreFile store;
  for (const int rank : {0, 1}) {
    const auto lonely = start(rank, 3, store);
    EXPECT_FALSE(has_joined(*lonely, 200ms));
    lonely->kill();
  }
  // The third alone does not complete the group of the dead.
  const auto two = start(2, 3, store);
  EXPECT_FALSE(has_joined(*two, 500ms));
  const auto zero = start(0, 3, store);
  EXPECT_FALSE(has_joined(*zero, 200ms));
  const auto one = start(1, 3, store);
  for (auto* each : {zero.get(), one.get(), two.get()}) each->expect("joined");
  two->say("call 0");
  two->expect("answer 7");
}

TEST(Entering, N5_AWorkerThatComesBackJoinsTheGroupThatLives) {
  StoreFile store;
  const auto zero = start(0, 2, store);
  auto one = start(1, 2, store);
  zero->expect("joined");
  one->expect("joined");
  for (int life = 0; life < 3; ++life) {
    one->kill();
    one = start(1, 2, store);
    one->expect("joined");
    one->say("call 0");
    one->expect("answer 7");
  }
}

// The members of lower rank, which are asked first, are the earlier lives of those that come back.
TEST(Entering, N5_WorkersOfTheLowestRanksComeBackToTheGroupThatLives) {
  StoreFile store;
  Members members;
  for (int rank = 0; rank < 3; ++rank) members.push_back(start(rank, 3, store));
  for (auto& each : members) each->expect("joined");
  for (int life = 0; life < 3; ++life) {
    members[0]->kill();
    members[1]->kill();
    members[1] = start(1, 3, store);
    members[1]->expect("joined");
    members[0] = start(0, 3, store);
    members[0]->expect("joined");
    members[0]->say("call 2");
    members[0]->expect("answer 7");
  }
}

TEST(Entering, N5_WhenAllDieAndComeBackTheyMeetAgain) {
  StoreFile store;
  for (int life = 0; life < 3; ++life) {
    Members members;
    for (int rank = 0; rank < 3; ++rank) members.push_back(start(rank, 3, store));
    for (auto& each : members) each->expect("joined");
    members[0]->say("call 2");
    members[0]->expect("answer 7");
    for (auto& each : members) each->kill();
  }
}

void expect_that_the_missing_are_named(WorkerOptions options, const std::string& place) {
  options.rank = 0;
  options.world_size = 3;
  options.join_timeout = 6s;  // a file store counts whole seconds: it says so after four
  testing::CapturedLog captured;
  std::string error;
  const auto began = std::chrono::steady_clock::now();
  try {
    Worker::join(make_registry(), options);
  } catch (const TimeoutError& timeout) {
    error = timeout.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 20s);
  const std::string log = captured.take();
  EXPECT_THAT(log, AllOf(HasSubstr("worker0"), HasSubstr("rank 1, 2"), HasSubstr(place)));
  EXPECT_THAT(error, AllOf(HasSubstr("rank 1, 2"), HasSubstr(place)));
  EXPECT_EQ(log.find("Exception raised"), std::string::npos) << log;
}

TEST(Entering, N6_AJoinThatWaitsSaysForWhom) {
  StoreFile store;
  expect_that_the_missing_are_named({.store_file = store.path}, store.path);
}

TEST(Entering, N6_AJoinThatWaitsInAStoreOverTcpSaysForWhom) {
  const uint16_t port = testing::free_port();
  expect_that_the_missing_are_named({.master_port = port}, "127.0.0.1:" + std::to_string(port));
}

TEST(Entering, N6_AWorkerThatWaitsForTheStoreSaysWhere) {
  testing::CapturedLog captured;
  EXPECT_THROW(Worker::join(make_registry(), {.rank = 1, .world_size = 2, .master_port = 1, .join_timeout = 3500ms}),
               TimeoutError);
  const std::string log = captured.take();
  EXPECT_THAT(log, HasSubstr("127.0.0.1:1"));
  EXPECT_EQ(log.find("Exception raised"), std::string::npos) << log;
}

TEST(Entering, AGroupOfTheLivingThatDoNotAnswerIsAnErrorThatNamesThem) {
  // A member that accepts connections and never says Hello: neither alive nor gone.
  StoreFile store;
  const auto zero = start(0, 2, store);
  EXPECT_FALSE(has_joined(*zero, 200ms));
  zero->stop();
  const auto began = std::chrono::steady_clock::now();
  std::string error;
  try {
    Worker::join(make_registry(), {.rank = 1, .world_size = 2, .store_file = store.path, .join_timeout = 1s});
  } catch (const TimeoutError& timeout) {
    error = timeout.what();
  }
  EXPECT_THAT(error, AllOf(HasSubstr("worker0"), HasSubstr(store.path)));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 20s);
}

// A member on another host, which this worker cannot dial: it may well live.
TEST(Entering, N5_AGroupThatCannotBeReachedFromHereIsNotReplaced) {
  const net::StorePointer store = c10::make_intrusive<c10d::HashStore>();
  net::MeetingPoint meeting_point(store);
  const net::MeetingPoint::Group there{0, net::Record{.name = "far_away",
                                                      .rank = 0,
                                                      .incarnation = make_incarnation(),
                                                      .host = "another host",
                                                      .tcp_address = "192.0.2.1:29600"}};
  EXPECT_EQ(meeting_point.replace_group({}, there), there);
  std::string error;
  try {
    Worker::join(make_registry(),
                 {.rank = 1, .world_size = 2, .store = store, .peer_timeout = 400ms, .join_timeout = 60s});
  } catch (const TimeoutError& timeout) {
    error = timeout.what();
  }
  EXPECT_THAT(error, AllOf(HasSubstr("far_away"), HasSubstr("GRADWIRE_INSECURE")));
  EXPECT_EQ(meeting_point.group(), there);
}

TEST(Entering, N5_AGroupThatHasLeftIsOverAtOnce) {
  const net::StorePointer store = c10::make_intrusive<c10d::HashStore>();
  net::MeetingPoint meeting_point(store);
  for (int run = 0; run < 20; ++run) {
    EXPECT_EQ(meeting_point.group(), net::MeetingPoint::Group{.generation = run});
    std::vector<std::thread> members;
    for (int rank = 0; rank < 3; ++rank)
      members.emplace_back([&, rank] {
        auto worker = Worker::join(make_registry(), {.rank = rank, .world_size = 3, .store = store});
        EXPECT_EQ(worker->peer((rank + 1) % 3).call(echo, rank).get(), rank);
        EXPECT_EQ(worker->peers().size(), 3U);
        worker->leave();
        // Others may still be leaving: the next run is another group all the same.
        EXPECT_EQ(net::MeetingPoint(store).group().generation, run + 1);
      });
    for (std::thread& each : members) each.join();
  }
}

}  // namespace
}  // namespace gradwire
