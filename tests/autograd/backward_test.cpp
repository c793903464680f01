// Backward passes over several workers: what takes part, and what they leave in the context.
#include <thread>

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include "tests/autograd/backward_support.h"

namespace gradwire::autograd {
namespace {

using ::testing::AllOf;
using testing::eventually;
using ::testing::HasSubstr;

TEST_F(Backward, C1_WhatTheRootsDoNotDependOnTakesNoPart) {
  Context context(worker);
  const Tensors results = peer(1).call(several, Counted::apply(x)).get();
  const at::Tensor unused = peer(2).call(counted, results[1]).get();  // a whole call that nothing comes of
  backward_runs = 0;
  context.backward(results[0].sum());
  EXPECT_TRUE(same(context.gradient(x), threes(3)));
  EXPECT_EQ(backward_runs, 1) << "B4";
  EXPECT_EQ(peer(2).call(read_gradient).get(), "readable");
}

TEST_F(Backward, C18_NothingIsSentForWhatIsNotNeeded) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  const at::Tensor unused = peer(2).call(times_weight, x).get();
  const uint64_t before = messages_sent(0, 2);
  context.backward(y.sum());
  EXPECT_EQ(messages_sent(0, 2), before);
}

TEST_F(Backward, WithinOneWorkerSendsNothing) {
  Context context(worker);
  peer(1).call(times_weight, x).get();
  const at::Tensor y = worker.self().call(times_weight, x).get();
  const uint64_t before = messages_sent(0, 1);
  context.backward(worker.self().call(twice, y).get().sum());
  EXPECT_EQ(messages_sent(0, 1), before);
  EXPECT_TRUE(same(context.gradient(x), threes(6)));
}

TEST_F(Backward, B1_WhatIsTooLargeToWalkIsAskedForOrWalkedWhenItMatters) {
  Context context(worker);
  // Too large here, then there: the root walks its own, and asks worker1 about its.
  const at::Tensor y = long_way(peer(2).call(times_weight, x).get());
  const at::Tensor z = peer(1).call(goes_a_long_way, y).get();
  context.backward(z.sum());
  EXPECT_TRUE(same(context.gradient(x), threes(9)));
  EXPECT_TRUE(same(weight_gradient_at(worker, "worker2"), threes(15)));
  EXPECT_TRUE(same(weight_gradient_at(worker, "worker1"), threes(15)));
}

TEST_F(Backward, TakesManyRoundTrips) {
  Context context(worker);
  at::Tensor y = x;
  for (int i = 0; i < 20; ++i) y = peer(1 + i % 2).call(twice, y.mul(0.5).add(x)).get();
  context.backward(y.sum());
  // y <- y + 2x, twenty times.
  EXPECT_TRUE(same(context.gradient(x), threes(41)));
}

TEST_F(Backward, TakesSeveralRootsWithAndWithoutGradients) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  const at::Tensor z = peer(2).call(twice, x).get();
  context.backward({y, z}, {.gradients = {threes(10), threes(100)}});
  EXPECT_TRUE(same(context.gradient(x), threes(230)));
  Context other(worker);
  other.backward(std::vector<at::Tensor>{peer(1).call(times_weight, x).get().sum(), x.sum()});
  EXPECT_TRUE(same(other.gradient(x), threes(4)));
}

TEST_F(Backward, AccumulatesOverPassesAsTorchDoes) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  context.backward(y.sum(), {.retain_graph = true});
  context.backward(y.sum(), {.retain_graph = true});
  context.backward(x.sum());
  EXPECT_TRUE(same(context.gradient(x), threes(7)));
  EXPECT_TRUE(same(weight_gradient_at(worker, "worker1"), threes(10)));
}

TEST_F(Backward, CanBeginAtAnotherWorkerByReference) {
  Context context(worker);
  const RRef<at::Tensor> y = peer(1).remote(times_weight, x);
  context.backward(y, {.gradients = {threes(2)}});
  EXPECT_TRUE(same(context.gradient(x), threes(6)));
  EXPECT_THAT(thrown<RemoteError>([&] { context.backward(y); }),
              AllOf(HasSubstr("worker1"), HasSubstr("only that of a scalar needs no gradient")));
}

TEST_F(Backward, CanBeginInAFunctionCalledUnderTheContext) {
  Context context(worker);
  peer(1).call(backward_there, x.mul(2)).get();
  EXPECT_TRUE(same(context.gradient(x), threes(6)));
  EXPECT_TRUE(same(weight_gradient_at(worker, "worker1"), threes(10)));
}

TEST_F(Backward, KeepsSparseGradientsSparse) {
  Context context(worker);
  const at::Tensor y = peer(1).call(embedded, at::tensor({1, 3, 1})).get();
  context.backward(y.sum(), {.retain_graph = true});
  context.backward(y.sum());
  const at::Tensor gradient = peer(1).call(table_gradient).get();
  EXPECT_EQ(gradient.layout(), at::kSparse);
  at::Tensor expected = at::zeros({5, 2}, at::kDouble);
  expected[1].fill_(4);
  expected[3].fill_(2);
  EXPECT_TRUE(same(gradient.to_dense(), expected));
}

TEST_F(Backward, SendsSparseGradientsOfHopsToo) {
  Context context(worker);
  const at::Tensor weights = at::ones({5, 2}, at::kDouble).set_requires_grad(true);
  const at::Tensor y = peer(1).call(twice, weights).get();
  context.backward(at::embedding(y, at::tensor({1, 3}), -1, false, true).sum());
  EXPECT_TRUE(same(context.gradient(weights).to_dense().sum(), at::full({}, 8.0, at::kDouble)));
}

TEST_F(Backward, WorksThroughNodesThatComputeGradientsInside) {
  Context context(worker);
  const at::Tensor y = peer(1).call(checkpointed, peer(2).call(twice, x).get()).get();
  context.backward(y.sum());
  EXPECT_TRUE(same(context.gradient(x), x.detach().mul(2).cos().mul(2)));
}

TEST_F(Backward, WorksThroughNodesThatCallOtherWorkers) {
  Context context(worker);
  const at::Tensor y = peer(1).call(calls_in_backward, x).get();
  context.backward(y.sum());
  EXPECT_TRUE(same(context.gradient(x), threes(2)));
}

TEST_F(Backward, C4_B6_GivesGradientsThatCanBeDifferentiatedAgain) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x.mul(x)).get();  // 3 x^2
  context.backward(y.mul(y).sum(), {.create_graph = true});         // 9 x^4
  const at::Tensor first = context.gradient(x);
  EXPECT_TRUE(first.requires_grad());
  EXPECT_TRUE(same(first.detach(), x.detach().pow(3).mul(36)));
  const at::Tensor at_weight = weight_gradient_at(worker, "worker1");
  EXPECT_TRUE(at_weight.requires_grad()) << "it came back under the context";
  context.backward(first.sum().add(at_weight.sum()), {.create_graph = true});
  // The first gradient is there already: 36 x^3 + 108 x^2 + d/dx (2 w x^4) = 8 w x^3.
  const at::Tensor second = context.gradient(x);
  const at::Tensor expected = x.detach().pow(3).mul(36 + 24).add(x.detach().pow(2).mul(108));
  EXPECT_TRUE(same(second.detach(), expected));
  context.backward(second.sum());
  EXPECT_TRUE(context.gradient(x).defined());
}

TEST_F(Backward, B4_CallsHooksOnce) {
  int on_leaf = 0;
  int on_value = 0;
  int before = 0;
  int after = 0;
  int accumulated = 0;
  struct Before : torch::autograd::FunctionPreHook {
    explicit Before(int& count) : count_(count) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
      ++count_;
      return {gradients[0].mul(2)};
    }
    int& count_;
  };
  struct After : torch::autograd::FunctionPostHook {
    explicit After(int& count) : count_(count) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list&) override {
      ++count_;
      return outputs;
    }
    int& count_;
  };
  struct Accumulated : torch::autograd::PostAccumulateGradHook {
    explicit Accumulated(int& count) : count_(count) {}
    void operator()(const at::Tensor& variable) override {
      ++count_;
      EXPECT_TRUE(Context::current().gradient(variable).defined());
    }
    int& count_;
  };
  Context context(worker);
  x.register_hook([&](const at::Tensor& gradient) {
    ++on_leaf;
    return gradient.mul(10);
  });
  const auto accumulator = torch::autograd::impl::grad_accumulator(x);
  accumulator->add_pre_hook(std::make_unique<Before>(before));
  accumulator->add_post_hook(std::make_unique<After>(after));
  torch::autograd::impl::set_post_acc_grad_hooks(x, std::make_unique<Accumulated>(accumulated));
  at::Tensor hidden = x.mul(3);
  hidden.retain_grad();
  hidden.register_hook([&](const at::Tensor&) { ++on_value; });
  at::Tensor y = peer(1).call(twice, hidden).get();
  y.retain_grad();
  context.backward(y.add(hidden).add(x).sum());
  EXPECT_EQ(on_leaf, 1);
  EXPECT_EQ(on_value, 1);
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 1);
  EXPECT_EQ(accumulated, 1);
  EXPECT_TRUE(same(hidden.grad(), threes(3)));
  EXPECT_TRUE(same(y.grad(), threes(1)));
  EXPECT_TRUE(same(context.gradient(x), threes((3 * 3 + 1) * 10 * 2)));
}

TEST_F(Backward, DoesNotShareGradientsThatTorchGivesTwice) {
  Context context(worker);
  const at::Tensor z = leaf(1);
  context.backward(x.add(z).sum(), {.retain_graph = true});
  context.backward(x.sum());
  EXPECT_TRUE(same(context.gradient(x), threes(2)));
  EXPECT_TRUE(same(context.gradient(z), threes(1)));
}

// A hook may take long, or wait for what others compute: what they need has been written before.
TEST_F(Backward, AHookOfAParametersGradientMayWaitForWhatTheOthersCompute) {
  static std::atomic<bool> computed = false;
  static std::atomic<bool> seen = false;
  struct Waits : torch::autograd::PostAccumulateGradHook {
    void operator()(const torch::autograd::Variable&) override {
      seen = eventually([] { return computed.load(); });
    }
  };
  constexpr Function<at::Tensor(at::Tensor)> hooked{"hooked"};
  Registry registry;
  registry.add(hooked, [](const at::Tensor& given) {
    const at::Tensor parameter = leaf(3);
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Waits>());
    return given.mul(parameter);
  });
  computed = seen = false;
  testing::Cluster two(2, registry);
  Context context(two[0]);
  const at::Tensor sent = x.mul(2);
  sent.register_hook([](const at::Tensor&) { computed = true; });
  context.backward(two[0].peer(1).call(hooked, sent).get().sum());
  EXPECT_TRUE(seen);
}

TEST_F(Backward, RunsSeveralPassesOverOneContextAtOnce) {
  Context context(worker);
  std::vector<at::Tensor> roots;
  for (int i = 0; i < 8; ++i) roots.push_back(peer(1).call(through, x, "worker2").get().sum());
  std::vector<std::thread> threads;
  for (const at::Tensor& root : roots) threads.emplace_back([&] { context.backward(root); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(same(context.gradient(x), threes(8 * 18)));
  EXPECT_TRUE(same(weight_gradient_at(worker, "worker2"), threes(8 * 30)));
}

TEST_F(Backward, FastTakesEveryHopOfTheContext) {
  for (const bool create_graph : {false, true}) {
    Context context(worker);
    const at::Tensor y = peer(1).call(through, x, "worker2").get();
    const at::Tensor z = worker.self().call(times_weight, y).get();
    context.backward(z.sum(), {.create_graph = create_graph, .mode = Mode::fast});
    EXPECT_TRUE(same(context.gradient(x).detach(), threes(54)));
    EXPECT_TRUE(same(weight_gradient_at(worker, "worker1").detach(), threes(90)));
    EXPECT_TRUE(same(weight_gradient_at(worker, "worker2").detach(), threes(90)));
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1, 2}));
}

// The creator takes part like any other.
TEST_F(Backward, FastCanBeginAtAWorkerThatDidNotMakeTheContext) {
  Registry registry = functions_of_passes();
  constexpr Function<void(at::Tensor)> fast_there{"fast_there"};
  registry.add(fast_there, [](const at::Tensor& given) {
    const at::Tensor y = Worker::current().peer("worker2").call(times_weight, given.mul(weight())).get();
    Context::current().backward(y.sum(), {.mode = Mode::fast});
  });
  testing::Cluster three(3, registry);
  {
    Context context(three[0]);
    three[0].peer(1).call(fast_there, x.mul(2)).get();
    EXPECT_TRUE(same(context.gradient(x), threes(18)));
    EXPECT_TRUE(same(weight_gradient_at(three[0], "worker1"), threes(30)));
    EXPECT_TRUE(same(weight_gradient_at(three[0], "worker2"), threes(30)));
  }
  EXPECT_TRUE(nothing_left(three, {0, 1, 2}));
}

TEST_F(Backward, FastTakesHopsWithinAParticipant) {
  Context context(worker);
  context.backward(peer(1).call(through, x, "worker1").get().sum(), {.mode = Mode::fast});
  EXPECT_TRUE(same(context.gradient(x), threes(18)));
  EXPECT_TRUE(same(weight_gradient_at(worker, "worker1"), threes(60)));
}

}  // namespace
}  // namespace gradwire::autograd
