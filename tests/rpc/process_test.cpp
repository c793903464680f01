// Workers in real processes: killed and stopped at random moments, forked, many at once.
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/processes.h"

#include "tests/support/campaign.h"
#include "tests/support/member.h"
#include "tests/support/store_file.h"
#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using testing::StoreFile;

constexpr Function<at::Tensor(at::Tensor, double)> scale{"scale"};
constexpr Function<at::Tensor(int, at::Tensor)> twice_at{"twice_at"};
constexpr Function<int(int)> bounce{"bounce"};
constexpr Function<int64_t()> process_id{"process_id"};
constexpr Function<void()> hold{"hold"};

Registry make_registry() {
  Registry registry;
  registry.add(scale, [](const at::Tensor& x, double by) { return x.mul(by); });
  registry.add(twice_at,
               [](int rank, const at::Tensor& x) { return Worker::current().peer(rank).call(scale, x, 2.0).get(); });
  registry.add(bounce, [](int left) -> int {
    if (left == 0) return 0;
    Worker& here = Worker::current();
    return 1 + here.peer(1 - here.rank()).call(bounce, left - 1).get();
  });
  registry.add(process_id, [] { return int64_t{getpid()}; });
  registry.add(hold, [] { testing::eventually([] { return cancelled(); }); });
  return registry;
}

int serve(testing::Child& me) { return testing::serve_as_member(make_registry(), me); }

std::unique_ptr<testing::Process> start(int rank, int size, const StoreFile& store) {
  return testing::start_member(serve, rank, size, store);
}

TEST(Processes, C23_NestedBlockingCallsGoBackAndForthFiveHundredTimes) {
  StoreFile store;
  auto other = start(1, 2, store);
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 2, .store_file = store.path});
  EXPECT_EQ(worker->peer(1).call(bounce, 500).get(), 500);
  worker->leave();
  EXPECT_EQ(other->wait(), 0);
}

TEST(Processes, C2_KilledAtRandomMomentsFailTheirCallsOnlyAndComeBackUnderTheirName) {
  StoreFile store;
  std::vector<std::unique_ptr<testing::Process>> others;
  for (int rank = 1; rank < 4; ++rank) others.push_back(start(rank, 4, store));
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 4, .store_file = store.path});
  std::mt19937_64 random(std::random_device{}());
  const int rounds = testing::campaign(10);
  for (int round = 0; round < rounds; ++round) {
    const int victim = 1 + static_cast<int>(random() % 3);
    std::vector<Future<at::Tensor>> to_victim;
    std::vector<Future<at::Tensor>> to_others;
    Peer old = worker->peer(victim);
    for (int i = 0; i < 40; ++i) {
      const at::Tensor x = at::full({random() % 4 == 0 ? 200'000 : 4}, i);
      to_victim.push_back(old.call(scale, x, 2.0));
      to_others.push_back(worker->peer(1 + victim % 3).call(scale, x, 2.0));
      if (i == static_cast<int>(random() % 40)) others[static_cast<size_t>(victim - 1)]->kill();
    }
    others[static_cast<size_t>(victim - 1)]->kill();
    for (size_t i = 0; i < to_victim.size(); ++i) try {
        EXPECT_TRUE(to_victim[i].get().eq(2.0 * static_cast<double>(i)).all().item<bool>());
      } catch (const PeerGoneError& error) {
        EXPECT_EQ(error.reason(), GoneReason::died);
      }
    for (size_t i = 0; i < to_others.size(); ++i)
      EXPECT_TRUE(to_others[i].get().eq(2.0 * static_cast<double>(i)).all().item<bool>());
    EXPECT_THROW(old.call(scale, at::ones({1}), 1.0).get(), PeerGoneError);
    auto again = start(victim, 4, store);
    again->expect("joined");
    EXPECT_EQ(worker->peer(victim).call(process_id).get(), again->id());
    others[static_cast<size_t>(victim - 1)] = std::move(again);
  }
  worker->leave();
  for (auto& other : others) EXPECT_EQ(other->wait(), 0);
}

TEST(Processes, AStoppedPeerTimesOutCallsAndGoesOnWhenItWakes) {
  StoreFile store;
  auto other = start(1, 2, store);
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 2, .store_file = store.path});
  Peer peer = worker->peer(1);
  EXPECT_TRUE(peer.call(scale, at::ones({1}), 2.0).get().equal(at::full({1}, 2.0)));
  other->stop();
  EXPECT_THROW(peer.with_timeout(50ms).call(scale, at::ones({1}), 2.0).get(), TimeoutError);
  Future<at::Tensor> later = peer.call(scale, at::ones({1}), 3.0);
  other->signal(SIGCONT);
  EXPECT_TRUE(later.get().equal(at::full({1}, 3.0)));
  worker->leave();
  EXPECT_EQ(other->wait(), 0);
}

TEST(Processes, StoppedAtRandomMomentsLoseNothingIfTheyWakeInTime) {
  StoreFile store;
  std::vector<std::unique_ptr<testing::Process>> others;
  for (int rank = 1; rank < 4; ++rank) others.push_back(start(rank, 4, store));
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 4, .store_file = store.path});
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto any_other = [&] { return 1 + static_cast<int>(random() % 3); };
  const int rounds = testing::campaign(10);
  for (int round = 0; round < rounds; ++round) {
    testing::Process& victim = *others[random() % others.size()];
    std::vector<Future<at::Tensor>> calls;
    const uint64_t when = random() % 60;
    const uint64_t until = when + random() % 60;
    for (uint64_t i = 0; i < 60; ++i) {
      if (i == when) victim.stop();
      if (i == until) victim.signal(SIGCONT);
      const at::Tensor x = at::full({random() % 4 == 0 ? 200'000 : 4}, static_cast<double>(i));
      calls.push_back(worker->peer(any_other()).call(twice_at, any_other(), x));
    }
    if (until >= 60) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 30));
      victim.signal(SIGCONT);
    }
    for (size_t i = 0; i < calls.size(); ++i)
      EXPECT_TRUE(calls[i].get().eq(2.0 * static_cast<double>(i)).all().item<bool>());
  }
  worker->leave();
  for (auto& other : others) EXPECT_EQ(other->wait(), 0);
}

// One that was silent for too long is dead, also if it wakes: its name belongs to the next who comes.
TEST(Processes, StoppedForTooLongAreDeadAndStaySo) {
  StoreFile store;
  const auto serve_impatiently = [](testing::Child& me) {
    auto worker =
        Worker::join(make_registry(), {.rank = 1, .world_size = 2, .store_file = me.argument(), .peer_timeout = 2s});
    me.say("joined");
    worker->leave();
    return 0;
  };
  auto old = testing::Processes().start(serve_impatiently, store.path);
  auto worker =
      Worker::join(make_registry(), {.rank = 0, .world_size = 2, .store_file = store.path, .peer_timeout = 2s});
  const Peer gone = worker->peer(1);
  EXPECT_EQ(gone.call(process_id).get(), old->id());
  old->stop();
  try {
    gone.call(process_id).get();
    FAIL();
  } catch (const PeerGoneError& error) {
    EXPECT_EQ(error.reason(), GoneReason::died);
  }
  auto next = testing::Processes().start(serve_impatiently, store.path);
  next->expect("joined");
  EXPECT_EQ(worker->peer(1).call(process_id).get(), next->id());
  old->signal(SIGCONT);
  EXPECT_EQ(old->wait(), 0);
  EXPECT_THROW(gone.call(process_id).get(), PeerGoneError);
  EXPECT_EQ(worker->peer(1).call(process_id).get(), next->id());
  worker->leave();
  EXPECT_EQ(next->wait(), 0);
}

// The variables of a process are destroyed after Gradwire's threads have ended.
TEST(Processes, ThatExitWithAWorkerAmongTheirVariablesEndAndWaitForNothing) {
  struct UsesItLate {
    std::unique_ptr<Worker> worker;
    std::optional<Peer> other;
    ~UsesItLate() {
      try {
        other->call(process_id).get();
        _exit(4);
      } catch (const InvalidArgumentError& error) {
        if (std::string_view(error.what()).find("the process exits") == std::string_view::npos) _exit(5);
      }
      worker->leave();
    }
  };
  StoreFile store;
  auto other = testing::Processes().start(
      [](testing::Child& me) {
        static UsesItLate late;
        late.worker = Worker::join(make_registry(), {.rank = 1, .world_size = 2, .store_file = me.argument()});
        late.other = late.worker->peer(0);
        late.other->call(bounce, 1).get();
        me.say("joined");
        me.hear();
        std::exit(3);
        return 0;
      },
      store.path);
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 2, .store_file = store.path});
  other->expect("joined");
  const Peer peer = worker->peer(1);
  other->say("end");
  EXPECT_EQ(other->wait(20s), 3);
  EXPECT_THROW(peer.call(process_id).get(), PeerGoneError);
  worker->leave();
}

// It goes on waiting, and is not woken to say otherwise.
TEST(Processes, ThatExitWhileAThreadWaitsForACallKeepTheirStatus) {
  StoreFile store;
  auto other = testing::Processes().start(
      [](testing::Child& me) {
        auto worker = Worker::join(make_registry(), {.rank = 1, .world_size = 2, .store_file = me.argument()});
        std::thread([] {
          std::this_thread::sleep_for(100ms);
          std::exit(3);
        }).detach();
        worker->peer(0).call(hold).get();
        return 0;
      },
      store.path);
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 2, .store_file = store.path});
  EXPECT_EQ(other->wait(20s), 3);
  worker->leave();
}

TEST(Processes, C20_AKilledMemberDoesNotHoldUpLeaving) {
  for (const int victim : {0, 2}) {
    StoreFile store;
    std::vector<std::unique_ptr<testing::Process>> others;
    for (const int rank : {0, 2, 3}) others.push_back(start(rank, 4, store));
    auto worker = Worker::join(make_registry(), {.rank = 1, .world_size = 4, .store_file = store.path});
    for (auto& other : others) other->expect("joined");
    others[victim == 0 ? 0 : 1]->kill();
    worker->leave();
    others.erase(others.begin() + (victim == 0 ? 0 : 1));
    for (auto& other : others) EXPECT_EQ(other->wait(), 0);
  }
}

TEST(Processes, C9_FortyProcessesOnAHostCallEachOtherWithLargeTensors) {
  constexpr int size = 40;
  StoreFile store;
  std::vector<std::unique_ptr<testing::Process>> others;
  for (int rank = 1; rank < size; ++rank) others.push_back(start(rank, size, store));
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = size, .store_file = store.path});
  const at::Tensor large = at::ones({100'000});
  std::vector<Future<at::Tensor>> futures;
  for (int rank = 1; rank < size; ++rank) futures.push_back(worker->peer(rank).call(scale, large, 1.0 * rank));
  for (int rank = 1; rank < size; ++rank)
    EXPECT_TRUE(futures[static_cast<size_t>(rank - 1)].get().eq(1.0 * rank).all().item<bool>());
  worker->leave();
  for (auto& other : others) EXPECT_EQ(other->wait(), 0);
}

TEST(Processes, AForkedChildRunsOnAndIsToldThatGradwireIsNotThere) {
  StoreFile store;
  auto other = start(1, 2, store);
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 2, .store_file = store.path});
  Peer peer = worker->peer(1);
  EXPECT_TRUE(peer.call(scale, at::ones({1}), 2.0).get().equal(at::full({1}, 2.0)));
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string said;
    const auto attempt = [&](auto act) {
      try {
        act();
        said += "it worked; ";
      } catch (const InvalidArgumentError& error) {
        said += error.what();
      }
    };
    attempt([&] { peer.call(scale, at::ones({1}), 2.0).get(); });
    attempt([&] { worker->peer("worker1"); });
    attempt([&] { worker->leave(); });
    attempt([&] { Worker::join(make_registry(), {.rank = 0, .world_size = 1, .store_file = store.path + "2"}); });
    worker.reset();
    if (::write(pipe[1], said.data(), said.size()) < 0) _exit(1);
    _exit(0);
  }
  ::close(pipe[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t count; (count = ::read(pipe[0], buffer, sizeof buffer)) > 0;)
    said.append(buffer, static_cast<size_t>(count));
  ::close(pipe[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  size_t told = 0;
  for (size_t at = 0; (at = said.find("Fork before joining", at)) != std::string::npos; ++at) ++told;
  EXPECT_EQ(told, 4U) << said;
  // The parent's connection was not disturbed by the child's end, and its own death is noticed while a child lives.
  EXPECT_TRUE(peer.call(scale, at::ones({1}), 2.0).get().equal(at::full({1}, 2.0)));
  worker->leave();
  EXPECT_EQ(other->wait(), 0);
}

// Joins, forks a child that lives on, and waits to be killed.
int fork_and_wait(testing::Child& me) {
  auto worker = Worker::join(make_registry(), {.rank = 1, .world_size = 2, .store_file = me.argument()});
  worker->peer(0).call(scale, at::ones({1}), 1.0).get();
  const pid_t child = fork();
  if (child == 0) {
    ::pause();
    _exit(0);
  }
  me.say(std::to_string(child));
  me.hear();
  return 0;
}

TEST(Processes, TheDeathOfAProcessIsNoticedAlsoIfAChildItForkedLivesOn) {
  StoreFile store;
  auto other = testing::Processes().start(fork_and_wait, store.path);
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 2, .store_file = store.path});
  const pid_t grandchild = std::stoi(other->hear());
  Peer peer = worker->peer(1);
  EXPECT_TRUE(peer.call(scale, at::ones({1}), 2.0).get().equal(at::full({1}, 2.0)));
  other->kill();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(peer.call(scale, at::ones({1}), 2.0).get(), PeerGoneError);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);  // a hundredfold of 50 ms
  ::kill(grandchild, SIGKILL);
}

}  // namespace
}  // namespace gradwire
