// What the tests of gradients share: functions with a parameter on each worker, and ways to look inside.
#pragma once

#include <chrono>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gradwire/autograd/contexts.h"
#include "gradwire/gradwire.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/thrown.h"
#include "tests/support/wait.h"

namespace gradwire::autograd {

inline constexpr Function<at::Tensor(at::Tensor)> twice{"twice"};
inline constexpr Function<at::Tensor(at::Tensor)> times_weight{"times_weight"};
inline constexpr Function<at::Tensor(at::Tensor, std::string)> through{"through"};
inline constexpr Function<at::Tensor()> weight_gradient{"weight_gradient"};
inline constexpr Function<at::Tensor()> get_weight{"get_weight"};

inline at::Tensor leaf(double value) { return at::full({3}, value, at::kDouble).set_requires_grad(true); }
inline at::Tensor threes(double value) { return at::full({3}, value, at::kDouble); }

// A parameter of the worker that runs the function; 3 at first. All workers may be in one process.
inline at::Tensor weight() {
  static Mutex mutex;
  static std::map<Incarnation, at::Tensor> all;
  MutexLock lock(mutex);
  at::Tensor& mine = all[Worker::current().self().incarnation()];
  if (!mine.defined()) mine = leaf(3);
  return mine;
}

inline Registry common_functions() {
  Registry registry;
  registry.add(twice, [](const at::Tensor& x) { return x.mul(2); });
  registry.add(times_weight, [](const at::Tensor& x) { return x.mul(weight()); });
  registry.add(through, [](const at::Tensor& x, const std::string& name) {
    return Worker::current().peer(name).call(times_weight, x.mul(weight())).get().mul(2);
  });
  registry.add(weight_gradient, [] { return Context::current().gradient(weight()); });
  registry.add(get_weight, [] { return weight(); });
  return registry;
}

inline std::vector<ContextReport> report(Worker& worker) { return Contexts::of(WorkerAccess::core(worker))->report(); }
// Of the one context there is.
inline ContextState::Counts counts(Worker& worker) {
  const std::vector<ContextReport> all = report(worker);
  return all.size() == 1 ? all[0].counts : ContextState::Counts{};
}
// A3.
inline bool nothing_left(testing::Cluster& cluster, const std::vector<int>& workers) {
  return testing::eventually(
      [&] { return std::ranges::all_of(workers, [&](int worker) { return report(cluster[worker]).empty(); }); });
}
inline ::testing::AssertionResult same(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() && b.defined() && a.sizes() == b.sizes() && at::allclose(a, b, 1e-12, 1e-14))
    return ::testing::AssertionSuccess();
  std::stringstream text;
  text << a << "\nis not\n" << b;
  return ::testing::AssertionFailure() << text.str();
}
inline at::Tensor weight_gradient_at(Worker& worker, const std::string& name) {
  return worker.peer(name).call(weight_gradient).get();
}
using testing::thrown;

}  // namespace gradwire::autograd
