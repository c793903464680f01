// Rows of the autograd layer: forward and backward between two processes.
#include <ATen/ops/zeros.h>

#include "gradwire/gradwire.h"

#include "processes.h"
#include "row.h"

namespace gradwire::bench {
namespace {

constexpr Function<at::Tensor(at::Tensor, at::Tensor)> add{"add"};

Registry make_registry() {
  Registry registry;
  registry.add(add, [](const at::Tensor& a, const at::Tensor& b) { return a.add(b); });
  return registry;
}

using Pair = PairOfProcesses<make_registry>;

at::Tensor parameter() { return at::ones({4}).set_requires_grad(true); }

// A chain of calls, each with the result of the one before, and its gradients: what torch's own row does.
void step(const Pair& pair, int hops, autograd::Mode mode, const at::Tensor& a, const at::Tensor& b) {
  autograd::Context context(*pair.worker);
  at::Tensor x = a;
  for (int i = 0; i < hops; ++i) x = pair.peer.call(add, x, b).get();
  context.backward(x.sum(), {.mode = mode});
  if (!context.gradient(a).defined() || !context.gradient(b).defined()) throw Error(ErrorCode::remote, "no gradient");
}

double hops(int count, autograd::Mode mode) {
  const Pair pair;
  const at::Tensor a = parameter();
  const at::Tensor b = parameter();
  const int repeats = count == 1 ? 2000 : count == 10 ? 400 : 50;
  return 1e6 * median_seconds(repeats, [&] { step(pair, count, mode, a, b); });
}

// Sixteen calls at once.
double fan_out() {
  const Pair pair;
  const at::Tensor a = parameter();
  const at::Tensor b = parameter();
  return 1e6 * median_seconds(400, [&] {
           autograd::Context context(*pair.worker);
           std::vector<Future<at::Tensor>> futures;
           for (int i = 0; i < 16; ++i) futures.push_back(pair.peer.call(add, a, b));
           at::Tensor sum = at::zeros({4});
           for (const at::Tensor& y : when_all(futures).get()) sum = sum.add(y);
           context.backward(sum.sum());
         });
}

// A pass that crosses nothing.
double engine_only() {
  const Pair pair;
  const at::Tensor a = parameter();
  autograd::Context context(*pair.worker);
  return 1e6 * median_seconds(20000, [&] { context.backward(a.mul(2).sum()); });
}

// A thousand at once: made, used, and ended.
double contexts() {
  const Pair pair;
  const at::Tensor a = parameter();
  return 1e6 * median_seconds(5, [&] {
           std::vector<std::unique_ptr<autograd::Context>> all;
           for (int i = 0; i < 1000; ++i) {
             all.push_back(std::make_unique<autograd::Context>(*pair.worker));
             all.back()->backward(pair.peer.call(add, a, a).get().sum());
           }
           while (!all.empty()) all.pop_back();
         });
}

double memory_growth() {
  const Pair pair;
  const at::Tensor a = parameter();
  const at::Tensor b = parameter();
  for (int i = 0; i < 20'000; ++i) step(pair, 1, autograd::Mode::smart, a, b);
  const double before = pair.resident_bytes();
  for (int i = 0; i < 100'000; ++i) step(pair, 1, autograd::Mode::smart, a, b);
  return 100 * (pair.resident_bytes() - before) / before;
}

}  // namespace

std::vector<Row> gradient_rows() {
  return {{"gradient.hops.1", "us", [] { return hops(1, autograd::Mode::smart); }},
          {"gradient.hops.10", "us", [] { return hops(10, autograd::Mode::smart); }},
          {"gradient.hops.100", "us", [] { return hops(100, autograd::Mode::smart); }},
          {"gradient.fast.hops.10", "us", [] { return hops(10, autograd::Mode::fast); }},
          {"gradient.fan_out.16", "us", fan_out},
          {"gradient.engine_only", "us", engine_only},
          {"gradient.contexts.1000", "us", contexts},
          {"gradient.memory_growth_per_100k_steps", "percent", memory_growth}};
}

}  // namespace gradwire::bench
