// References between real processes, which are killed at random moments.
#include <fstream>
#include <random>
#include <thread>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
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
using testing::eventually;
using testing::StoreFile;

constexpr Function<at::Tensor(at::Tensor, double)> scale{"scale"};
constexpr Function<void(RRef<at::Tensor>)> keep{"keep"};
constexpr Function<void(int64_t)> forget_all_but{"forget_all_but"};
constexpr Function<double(RRef<at::Tensor>)> sum_of{"sum_of"};
constexpr Function<void(int64_t)> pass_on{"pass_on"};
constexpr Function<int64_t()> references_left{"references_left"};

std::mutex mutex;
std::vector<RRef<at::Tensor>> kept;

std::optional<RRef<at::Tensor>> any_kept(uint64_t which) {
  const std::scoped_lock lock(mutex);
  return kept.empty() ? std::nullopt : std::optional(kept[which % kept.size()]);
}

Registry make_registry() {
  Registry registry;
  registry.add(scale, [](const at::Tensor& x, double by) { return x.mul(by); });
  registry.add(keep, [](const RRef<at::Tensor>& r) {
    const std::scoped_lock lock(mutex);
    kept.push_back(r);
  });
  registry.add(forget_all_but, [](int64_t count) {
    const std::scoped_lock lock(mutex);
    while (kept.size() > static_cast<size_t>(count)) kept.pop_back();
  });
  registry.add(sum_of, [](const RRef<at::Tensor>& r) { return r.fetch().get().sum().item<double>(); });
  registry.add(pass_on, [](int64_t to) {
    if (auto r = any_kept(static_cast<uint64_t>(to) * 7919))
      Worker::current().peer(static_cast<int>(to)).call(keep, *r).wait();
  });
  registry.add(references_left, [] {
    const ReferenceReport report = Worker::current().debug();
    return static_cast<int64_t>(report.owned.size() + report.held.size() + report.adoptions);
  });
  return registry;
}

int serve(testing::Child& me) { return testing::serve_as_member(make_registry(), me); }

std::unique_ptr<testing::Process> start(int rank, const StoreFile& store) {
  return testing::start_member(serve, rank, 4, store);
}

// Whatever was under way when it died: what others own and hold stays as it is, what it held is released, what it
// owned fails by type, and in the end nothing is left.
TEST(ReferenceProcesses, KilledAtRandomMomentsTakeOnlyTheirOwnWithThem) {
  StoreFile store;
  std::vector<std::unique_ptr<testing::Process>> others;
  for (int rank = 1; rank < 4; ++rank) others.push_back(start(rank, store));
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 4, .store_file = store.path});
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto draw = [&](uint64_t below) { return random() % below; };
  const int rounds = testing::campaign(10);
  for (int round = 0; round < rounds; ++round) {
    const int victim = 1 + static_cast<int>(draw(3));
    std::vector<std::pair<RRef<at::Tensor>, double>> mine;
    const RRef<at::Tensor> own = worker->share(at::full({2}, 1.5));
    std::vector<Future<void>> under_way;
    const uint64_t when = draw(60);
    for (uint64_t i = 0; i < 60; ++i) {
      if (i == when) others[static_cast<size_t>(victim - 1)]->kill();
      const auto by = static_cast<double>(i);
      const int owner = 1 + static_cast<int>(draw(3));
      const int to = 1 + static_cast<int>(draw(3));
      try {
        mine.emplace_back(worker->peer(owner).remote(scale, at::ones({2}), by), 2 * by);
        const auto& given = draw(3) == 0 ? own : mine[draw(mine.size())].first;
        under_way.push_back(worker->peer(to).call(keep, given));
        under_way.push_back(
            worker->peer(1 + static_cast<int>(draw(3))).call(pass_on, 1 + static_cast<int64_t>(draw(3))));
      } catch (const PeerGoneError&) {
        // The victim owns it, or was called.
      }
    }
    others[static_cast<size_t>(victim - 1)]->kill();
    for (const Future<void>& call : under_way) try {
        call.get();
      } catch (const PeerGoneError&) {
      } catch (const RemoteError& error) {
        EXPECT_EQ(error.origin_code(), ErrorCode::gone) << error.what();
      }
    for (const auto& [reference, expected] : mine) try {
        EXPECT_EQ(reference.to_here().sum().item<double>(), expected);
        EXPECT_NE(reference.owner().rank(), victim);
      } catch (const OwnerGoneError& gone) {
        EXPECT_EQ(gone.reason(), GoneReason::died);
        EXPECT_EQ(reference.owner().rank(), victim);
      }
    EXPECT_EQ(worker->peer(1 + victim % 3).call(sum_of, own).get(), 3.0);
    auto again = start(victim, store);
    again->expect("joined");
    others[static_cast<size_t>(victim - 1)] = std::move(again);
    for (int rank = 1; rank < 4; ++rank) worker->peer(rank).call(forget_all_but, 0).get();
    mine.clear();
  }
  EXPECT_TRUE(eventually([&] {
    int64_t left = static_cast<int64_t>(worker->debug().owned.size() + worker->debug().held.size());
    for (int rank = 1; rank < 4; ++rank) left += worker->peer(rank).call(references_left).get();
    return left == 0;
  })) << worker->debug();
  worker->leave();
  for (auto& other : others) EXPECT_EQ(other->wait(), 0);
}

}  // namespace
}  // namespace gradwire
