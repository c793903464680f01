// One blocking call between two real processes over a Unix socket.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/processes.h"

#include "tests/support/store_file.h"

namespace gradwire {
namespace {

using testing::StoreFile;

constexpr Function<at::Tensor(at::Tensor, double)> scale{"scale"};
constexpr Function<int(int)> fail{"fail"};
constexpr Function<int(int)> unknown{"unknown"};

Registry make_registry() {
  Registry registry;
  registry.add(scale, [](const at::Tensor& x, double by) { return x.mul(by); });
  registry.add(fail, [](int) -> int { throw std::runtime_error("no luck"); });
  return registry;
}

int serve(testing::Child& me) {
  auto worker = Worker::join(make_registry(), {.rank = 1, .world_size = 2, .store_file = me.argument()});
  worker->leave();
  return 0;
}

TEST(Call, C6_RunsARegisteredFunctionInAnotherProcessFromCppAlone) {
  StoreFile store;
  auto other = testing::Processes().start(serve, store.path);
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 2, .store_file = store.path});
  Peer peer = worker->peer("worker1");
  EXPECT_TRUE(peer.call(scale, at::ones({3}), 2.0).get().equal(at::full({3}, 2.0)));
  for (int i = 0; i < 1000; ++i)
    EXPECT_TRUE(peer.call(scale, at::full({4}, i), 2.0).get().equal(at::full({4}, 2.0 * i)));
  const at::Tensor large = at::ones({1024, 1024});
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(peer.call(scale, large, 3.0).get().equal(large.mul(3)));
  worker->leave();
  worker.reset();
  EXPECT_EQ(other->wait(), 0);
}

TEST(Call, GivesTheErrorOfTheFunctionAtTheCaller) {
  StoreFile store;
  auto other = testing::Processes().start(serve, store.path);
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 2, .store_file = store.path});
  try {
    worker->peer(1).call(fail, 1).get();
    FAIL() << "no error";
  } catch (const RemoteError& error) {
    EXPECT_STREQ(error.what(), "\"fail\" failed at worker1: std::runtime_error: no luck");
    EXPECT_EQ(error.worker(), "worker1");
  }
  EXPECT_THROW(worker->peer(1).call(unknown, 1).get(), NotFoundError);
  worker->leave();
}

TEST(Call, FailsWhenTheCalleeIsKilled) {
  StoreFile store;
  auto other = testing::Processes().start(serve, store.path);
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 2, .store_file = store.path});
  Peer peer = worker->peer("worker1");
  peer.call(scale, at::ones({3}), 2.0).get();
  other->kill();
  try {
    peer.call(scale, at::ones({3}), 2.0).get();
    FAIL() << "no error";
  } catch (const PeerGoneError& error) {
    EXPECT_EQ(error.reason(), GoneReason::died);
    EXPECT_EQ(error.worker(), "worker1");
  }
}

}  // namespace
}  // namespace gradwire
