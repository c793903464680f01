// What a worker refuses at once, instead of waiting for itself or copying for nothing.
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "gradwire/gradwire.h"
#include "gradwire/net/runtime.h"
#include "gradwire/testing/cluster.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::Cluster;
using ::testing::HasSubstr;

constexpr Function<int(int)> twice{"twice"};
constexpr Function<void()> leave_here{"leave_here"};
constexpr Function<void()> leave_in_a_task{"leave_in_a_task"};
constexpr Function<at::Tensor()> too_large{"too_large"};

constexpr Function<int64_t(at::Tensor)> sum{"sum"};

constexpr int64_t beyond_every_bound = int64_t{1} << 40U;

Registry make_registry() {
  Registry registry;
  registry.add(twice, [](int x) { return 2 * x; });
  registry.add(leave_here, [] { Worker::current().leave(); });
  registry.add(leave_in_a_task, []() -> Future<void> {
    return []() -> Task<void> {
      Worker::current().leave();
      co_return;
    }()
                       .start();
  });
  registry.add(too_large, [] { return at::ones({1}).expand({beyond_every_bound}); });
  registry.add(sum, [](const at::Tensor& tensor) { return tensor.sum().item<int64_t>(); });
  return registry;
}

class Refusals : public ::testing::Test {
 protected:
  Cluster cluster{2, make_registry()};
  Peer peer = cluster[0].peer(1);
};

TEST_F(Refusals, N11_LeaveInAFunctionIsAnErrorThatNamesWorkerAndFunction) {
  for (const auto& function : {leave_here, leave_in_a_task}) try {
      peer.with_timeout(20s).call(function).get();
      FAIL() << "no error";
    } catch (const RemoteError& error) {
      EXPECT_EQ(error.origin_code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), AllOf(HasSubstr(std::string(function.name())), HasSubstr("worker1")));
    }
  EXPECT_EQ(peer.call(twice, 2).get(), 4) << "it goes on";
}

TEST_F(Refusals, N3_ArgumentsAndResultsThatAreTooLargeAreRefusedAtTheirSender) {
  const at::Tensor large = at::ones({1}).expand({beyond_every_bound});
  EXPECT_THROW((void)peer.call<int>("twice", large), OverloadedError);
  try {
    peer.with_timeout(20s).call(too_large).get();
    FAIL() << "no error";
  } catch (const OverloadedError& error) {
    EXPECT_EQ(error.worker(), "worker1");
    EXPECT_THAT(error.what(), HasSubstr("too_large"));
  }
  EXPECT_EQ(peer.call(twice, 2).get(), 4);
}

TEST_F(Refusals, W6_WhatTheProcessHasNoRoomForIsAnErrorThatNamesTheBound) {
  net::ArrivalBudget& budget = *net::Runtime::of_process()->arrival_budget();
  ASSERT_EQ(budget.taken(), 0U);
  ASSERT_TRUE(budget.take(budget.bytes()));
  try {
    peer.with_timeout(20s).call(sum, at::ones({1 << 20})).get();
    ADD_FAILURE() << "no error";
  } catch (const OverloadedError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("worker1"), HasSubstr("sum"), HasSubstr(std::to_string(budget.bytes()))));
  }
  EXPECT_EQ(peer.call(twice, 2).get(), 4) << "small ones have their room";
  budget.give_back(budget.bytes());
  EXPECT_EQ(peer.call(sum, at::ones({1 << 20})).get(), 1 << 20);
  EXPECT_EQ(budget.taken(), 0U);
}

}  // namespace
}  // namespace gradwire
