// Contexts as users see them: what travels stays differentiable, and contexts come and go.
#include "gradwire/autograd/context.h"

#include <thread>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gradwire/autograd/contexts.h"
#include "gradwire/gradwire.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire::autograd {
namespace {

using testing::Cluster;
using testing::eventually;
using ::testing::HasSubstr;

constexpr Function<at::Tensor(at::Tensor)> twice{"twice"};
constexpr Function<at::Tensor(at::Tensor)> times_weight{"times_weight"};
constexpr Function<at::Tensor(at::Tensor, std::string)> through{"through"};
constexpr Function<at::Tensor(at::Tensor)> weight_gradient{"weight_gradient"};
constexpr Function<bool()> has_context{"has_context"};
constexpr Function<at::Tensor(at::Tensor)> task{"task"};
constexpr Function<at::Tensor(at::Tensor)> without{"without"};
constexpr Function<bool(at::Tensor)> requires_grad{"requires_grad"};
constexpr Function<at::Tensor()> a_parameter{"a_parameter"};

at::Tensor leaf(double value) { return at::full({3}, value, at::kDouble).set_requires_grad(true); }

// Of the workers of one process: by worker.
at::Tensor& weight() {
  static std::map<std::string, at::Tensor> all;
  static Mutex mutex;
  MutexLock lock(mutex);
  at::Tensor& mine = all[Worker::current().name()];
  if (!mine.defined()) mine = leaf(3);
  return mine;
}

Registry registry() {
  Registry registry;
  registry.add(twice, [](at::Tensor x) { return x.mul(2); });
  registry.add(times_weight, [](at::Tensor x) { return x.mul(weight()); });
  registry.add(through, [](at::Tensor x, std::string name) {
    return Worker::current().peer(name).call(times_weight, x.mul(weight())).get().mul(2);
  });
  registry.add(weight_gradient, [](at::Tensor) { return Context::current().gradient(weight()); });
  registry.add(has_context, [] { return Context::has_current(); });
  registry.add(task, [](at::Tensor x) -> Task<at::Tensor> {
    at::Tensor y = co_await Worker::current().self().call(times_weight, x);
    co_return y.mul(2);
  });
  registry.add(without, [](at::Tensor x) {
    const at::NoGradGuard guard;
    return Worker::current().self().call(times_weight, x).get();
  });
  registry.add(requires_grad, [](at::Tensor x) { return x.requires_grad(); });
  registry.add(a_parameter, [] { return weight(); });
  registry.allow_operators("aten::mul");
  return registry;
}

std::vector<ContextReport> report(Worker& worker) { return Contexts::of(WorkerAccess::core(worker))->report(); }
bool nothing_left(Cluster& cluster, int size) {
  for (int i = 0; i < size; ++i)
    if (!report(cluster[i]).empty()) return false;
  return true;
}
at::Tensor gradient_of_weight(Worker& worker, const std::string& at) {
  return worker.peer(at).call(weight_gradient, at::zeros({1})).get();
}
::testing::AssertionResult same(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() && b.defined() && at::allclose(a, b, 1e-12, 1e-14)) return ::testing::AssertionSuccess();
  std::stringstream text;
  text << a << "\nis not\n" << b;
  return ::testing::AssertionFailure() << text.str();
}

TEST(Context, ACallIsDifferentiable) {
  Cluster cluster(2, registry());
  const at::Tensor x = leaf(5);
  {
    Context context(cluster[0]);
    const at::Tensor y = cluster[0].peer("worker1").call(times_weight, x).get();
    EXPECT_TRUE(y.requires_grad());
    context.backward(y.sum());
    EXPECT_TRUE(same(context.gradient(x), at::full({3}, 3.0, at::kDouble)));
    EXPECT_FALSE(x.grad().defined());
    EXPECT_TRUE(same(gradient_of_weight(cluster[0], "worker1"), at::full({3}, 5.0, at::kDouble)));
  }
  EXPECT_TRUE(eventually([&] { return nothing_left(cluster, 2); }));
}

TEST(Context, NestedCallsInheritIt) {
  Cluster cluster(3, registry());
  const at::Tensor x = leaf(5);
  Context context(cluster[0]);
  const at::Tensor y = cluster[0].peer("worker1").call(through, x, "worker2").get();  // x * 3 * 3 * 2
  context.backward(y.sum());
  EXPECT_TRUE(same(context.gradient(x), at::full({3}, 18.0, at::kDouble)));
  EXPECT_TRUE(same(gradient_of_weight(cluster[0], "worker1"), at::full({3}, 30.0, at::kDouble)));
  EXPECT_TRUE(same(gradient_of_weight(cluster[0], "worker2"), at::full({3}, 30.0, at::kDouble)));
}

}  // namespace
}  // namespace gradwire::autograd
