// Gradients between real processes, which are killed at random moments of forward and backward.
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gradwire/autograd/contexts.h"
#include "gradwire/gradwire.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/processes.h"

#include "tests/autograd/random_program_on_workers.h"
#include "tests/support/campaign.h"
#include "tests/support/member.h"
#include "tests/support/store_file.h"
#include "tests/support/wait.h"

namespace gradwire::autograd {
namespace {

using testing::eventually;
using testing::StoreFile;

constexpr int workers = 4;
constexpr Function<int64_t()> contexts_left{"contexts_left"};
constexpr Function<void(uint64_t)> set_seed{"set_seed"};

// Once: functions look parameters up by the worker's name, and those of a program are new tensors.
void set_parameters(uint64_t seed, Worker& worker) {
  static Mutex mutex;
  MutexLock lock(mutex);
  all_parameters()[worker.name()] = make_parameters(seed, worker.rank());
}

Registry make_registry() {
  Registry registry = functions_of_random_programs(workers);
  registry.add(contexts_left, [] {
    return static_cast<int64_t>(Contexts::of(WorkerAccess::core(Worker::current()))->report().size());
  });
  registry.add(set_seed, [](uint64_t seed) { set_parameters(seed, Worker::current()); });
  return registry;
}

int serve(testing::Child& me) { return testing::serve_as_member(make_registry(), me); }

// B5, A3, C3, C11: whatever was under way when a process died, everyone gets an error of the right type, and no
// context is left.
TEST(GradientProcesses, KilledAtRandomMomentsFailWhatTheyTookPartInAndNothingElse) {
  StoreFile store;
  std::vector<std::unique_ptr<testing::Process>> others;
  const auto start = [&](int rank) { return testing::start_member(serve, rank, workers, store); };
  for (int rank = 1; rank < workers; ++rank) others.push_back(start(rank));
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = workers, .store_file = store.path});
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  int failed = 0;
  const int rounds = testing::campaign(50);
  for (int round = 0; round < rounds; ++round) {
    const uint64_t program = random();
    set_parameters(program, *worker);
    for (int rank = 1; rank < workers; ++rank) worker->peer(rank).call(set_seed, program).get();
    const size_t victim = random() % others.size();
    const auto when = std::chrono::microseconds(random() % 4000);
    std::thread killer([&] {
      std::this_thread::sleep_for(when);
      others[victim]->kill();
    });
    try {
      // Several, so that the death falls into one of them.
      for (uint64_t step = 0; step < 6; ++step) {
        Context context(*worker);
        Distributed machine(*worker, workers);
        const at::Tensor loss =
            loss_of(run(machine, {.seed = program + step, .budget = 12, .smooth = (program + step) % 2 == 0}, {}));
        if (loss.defined()) context.backward(loss, {.create_graph = step % 3 == 0});
      }
    } catch (const PeerGoneError&) {
      ++failed;
    } catch (const RemoteError& error) {
      ++failed;
      EXPECT_EQ(error.origin_code(), ErrorCode::gone) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "round " << round << ": " << error.what();
    }
    killer.join();
    const auto left = [&] {
      auto count = static_cast<int64_t>(Contexts::of(WorkerAccess::core(*worker))->report().size());
      for (int rank = 1; rank < workers; ++rank)
        if (rank != static_cast<int>(victim) + 1) count += worker->peer(rank).call(contexts_left).get();
      return count;
    };
    ASSERT_TRUE(eventually([&] { return left() == 0; })) << "round " << round;
    others[victim] = start(static_cast<int>(victim) + 1);
    others[victim]->expect("joined");
    // Until the old life's death and the new one are known here.
    ASSERT_TRUE(eventually([&] {
      try {
        return worker->peer(static_cast<int>(victim) + 1).call(contexts_left).get() == 0;
      } catch (const PeerGoneError&) {
        return false;
      }
    }));
  }
  EXPECT_GT(failed, rounds / 10) << "the deaths came too late to matter";
  worker->leave();
  for (auto& other : others) EXPECT_EQ(other->wait(), 0);
}

}  // namespace
}  // namespace gradwire::autograd
