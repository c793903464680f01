// Backward passes over several workers: what takes part, what they leave in the context, how they fail.
#include <future>
#include <thread>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include "tests/autograd/support.h"

namespace gradwire::autograd {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using testing::Cluster;
using testing::eventually;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

constexpr Function<Tensors(at::Tensor)> several{"several"};
constexpr Function<at::Tensor(at::Tensor)> goes_a_long_way{"goes_a_long_way"};
at::Tensor long_way(at::Tensor x);
constexpr Function<at::Tensor(at::Tensor)> breaks_backward{"breaks_backward"};
constexpr Function<at::Tensor(at::Tensor)> changed_in_place{"changed_in_place"};
constexpr Function<at::Tensor(at::Tensor)> slow_backward{"slow_backward"};
constexpr Function<at::Tensor(at::Tensor)> counted{"counted"};
constexpr Function<at::Tensor(at::Tensor)> embedded{"embedded"};
constexpr Function<at::Tensor()> table_gradient{"table_gradient"};
constexpr Function<at::Tensor(at::Tensor)> checkpointed{"checkpointed"};
constexpr Function<void(at::Tensor)> backward_there{"backward_there"};
constexpr Function<std::string()> read_gradient{"read_gradient"};
constexpr Function<at::Tensor(at::Tensor)> calls_in_backward{"calls_in_backward"};

std::atomic<int> backward_runs = 0;
std::promise<void>& slow_gate() {
  static auto* gate = new std::promise<void>;
  return *gate;
}

struct Counted : torch::autograd::Function<Counted> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static Tensors backward(torch::autograd::AutogradContext*, Tensors gradients) {
    ++backward_runs;
    return gradients;
  }
};
struct Breaks : torch::autograd::Function<Breaks> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors&) {
    throw std::runtime_error("broken on purpose");
  }
};
struct Slow : torch::autograd::Function<Slow> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static Tensors backward(torch::autograd::AutogradContext*, Tensors gradients) {
    slow_gate().get_future().wait();
    return gradients;
  }
};
// Computes forward again in its backward, by a pass of torch's inside ours.
struct Checkpointed : torch::autograd::Function<Checkpointed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x.sin();
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    const at::Tensor x = context->get_saved_variables()[0].detach().set_requires_grad(true);
    at::Tensor y;
    {
      const at::AutoGradMode on(true);
      y = x.sin();
    }
    return torch::autograd::grad({y}, {x}, {gradients[0]});
  }
};
// Calls another worker while gradients are computed.
struct CallsInBackward : torch::autograd::Function<CallsInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors& gradients) {
    return {Worker::current().peer("worker0").call(twice, gradients[0]).get()};
  }
};

at::Tensor table() {
  static const at::Tensor table = at::ones({5, 2}, at::kDouble).set_requires_grad(true);
  return table;
}

Registry registry() {
  Registry registry = common_functions();
  registry.add(several, [](const at::Tensor& x) { return Tensors{x.mul(weight()), x.mul(5), x.detach(), x.sin()}; });
  registry.add(goes_a_long_way, [](const at::Tensor& x) {
    return long_way(Worker::current().peer("worker2").call(twice, x.mul(weight())).get().mul(0.5));
  });
  registry.add(breaks_backward, [](const at::Tensor& x) { return Breaks::apply(x); });
  registry.add(slow_backward, [](const at::Tensor& x) { return Slow::apply(x); });
  registry.add(counted, [](const at::Tensor& x) { return Counted::apply(x); });
  registry.add(checkpointed, [](const at::Tensor& x) { return Checkpointed::apply(x); });
  registry.add(calls_in_backward, [](const at::Tensor& x) { return CallsInBackward::apply(x); });
  registry.add(changed_in_place, [](const at::Tensor& x) {
    at::Tensor y = x.mul(weight());
    at::Tensor z = y.mul(y);
    const at::NoGradGuard guard;
    y.add_(1);
    return z;
  });
  registry.add(embedded, [](const at::Tensor& rows) { return at::embedding(table(), rows, -1, false, true); });
  registry.add(table_gradient, [] { return Context::current().gradient(table()); });
  registry.add(backward_there, [](const at::Tensor& x) { Context::current().backward(x.mul(weight()).sum()); });
  registry.add(read_gradient, [] {
    try {
      Context::current().gradient(weight());
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("readable");
  });
  return registry;
}

class Backward : public ::testing::Test {
 protected:
  Backward() { slow_gate() = {}; }
  Peer peer(int rank) { return cluster[0].peer(rank); }
  // By worker0 to that one.
  uint64_t messages_sent(int rank) {
    return WorkerAccess::core(worker)
        .endpoint()
        ->session(WorkerAccess::core(cluster[rank]).endpoint()->record())
        ->statistics()
        .sent;
  }
  Cluster cluster{3, registry()};
  Worker& worker = cluster[0];
  const at::Tensor x = leaf(5);
};

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
  const uint64_t before = messages_sent(2);
  context.backward(y.sum());
  EXPECT_EQ(messages_sent(2), before);
}

TEST_F(Backward, WithinOneWorkerSendsNothing) {
  Context context(worker);
  peer(1).call(times_weight, x).get();
  const at::Tensor y = worker.self().call(times_weight, x).get();
  const uint64_t before = messages_sent(1);
  context.backward(worker.self().call(twice, y).get().sum());
  EXPECT_EQ(messages_sent(1), before);
  EXPECT_TRUE(same(context.gradient(x), threes(6)));
}

// More nodes than are walked when a message is sent.
at::Tensor long_way(at::Tensor x) {
  for (int i = 0; i < 200'010; ++i) x = x.add(0);
  return x;
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

TEST_F(Backward, OverAGraphThatWasFreedSaysSoAndWhere) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  const at::Tensor sum = y.sum();
  context.backward(sum);
  EXPECT_THAT(thrown<RemoteError>([&] { context.backward(y.sum()); }),
              AllOf(HasSubstr("worker1"), HasSubstr("second time")));
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

TEST_F(Backward, RefusesRootsThatCannotBe) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  const auto error = [&](const std::vector<at::Tensor>& roots, const BackwardOptions& options = {}) {
    return thrown<InvalidArgumentError>([&] { context.backward(roots, options); });
  };
  EXPECT_THAT(error({}), HasSubstr("without a root"));
  EXPECT_THAT(error({at::Tensor()}), HasSubstr("undefined"));
  EXPECT_THAT(error({threes(1).sum()}), HasSubstr("does not require grad"));
  EXPECT_THAT(error({y}), HasSubstr("only that of a scalar needs no gradient"));
  EXPECT_THAT(error({y}, {.gradients = {at::ones({2}, at::kDouble)}}), HasSubstr("they must be the same"));
  EXPECT_THAT(error({y}, {.gradients = {at::ones({3}, at::kFloat)}}), HasSubstr("they must be the same"));
  EXPECT_THAT(error({y, y}, {.gradients = {threes(1)}}), HasSubstr("one for each"));
  // None of this has touched the context.
  context.backward(y.sum());
  EXPECT_TRUE(same(context.gradient(x), threes(3)));
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { context.gradient(y); }), HasSubstr("not a leaf"));
}

TEST_F(Backward, RefusesAGraphOfAnotherContext) {
  Context first(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  Context second(worker);
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { second.backward(y.sum()); }), HasSubstr("under another context"));
  const at::Tensor z = peer(1).call(twice, x).get();
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { peer(2).call(twice, z.add(y)).get(); }),
              HasSubstr("under another context"));
}

TEST_F(Backward, OfTorchsOwnOverSuchAGraphSaysWhatToDo) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { y.sum().backward(); }), HasSubstr("use Context::backward"));
}

TEST_F(Backward, C3_ANodeThatThrowsFailsThePassEverywhereWithTheCause) {
  {
    Context context(worker);
    const at::Tensor y = peer(1).call(breaks_backward, peer(2).call(times_weight, x).get()).get();
    EXPECT_THAT(thrown<RemoteError>([&] { context.backward(y.sum()); }),
                AllOf(HasSubstr("worker1"), HasSubstr("broken on purpose")));
    EXPECT_THAT(thrown<RemoteError>([&] { context.gradient(x); }), HasSubstr("broken on purpose"))
        << "the gradients are partial";
    for (const int rank : {1, 2})
      EXPECT_TRUE(eventually(
          [&] { return peer(rank).call(read_gradient).get().find("broken on purpose") != std::string::npos; }));
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1, 2}));
  // Others are not disturbed.
  Context context(worker);
  context.backward(peer(1).call(times_weight, x).get().sum());
  EXPECT_TRUE(same(context.gradient(x), threes(3)));
}

TEST_F(Backward, FailsWhereATensorWasChangedInPlace) {
  Context context(worker);
  const at::Tensor y = peer(1).call(changed_in_place, x).get();
  EXPECT_THAT(thrown<RemoteError>([&] { context.backward(y.sum()); }),
              AllOf(HasSubstr("worker1"), HasSubstr("modified by an inplace operation")));
}

TEST_F(Backward, ANodeHereThatThrowsIsThrownAsItIs) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, Breaks::apply(x)).get();
  EXPECT_THAT(thrown<std::runtime_error>([&] { context.backward(y.sum()); }), HasSubstr("broken on purpose"));
  EXPECT_TRUE(
      eventually([&] { return peer(1).call(read_gradient).get().find("broken on purpose") != std::string::npos; }));
}

TEST_F(Backward, C8_TakesATimeoutAndSaysWhomItWaitedFor) {
  {
    Context context(worker);
    const at::Tensor y = peer(1).call(slow_backward, x).get();
    EXPECT_THAT(thrown<TimeoutError>([&] { context.backward(y.sum(), {.timeout = milliseconds(50)}); }),
                AllOf(HasSubstr("50 ms"), HasSubstr("waits for worker1")));
    slow_gate().set_value();
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
}

TEST_F(Backward, B5_FailsEverywhereWhenAParticipantDies) {
  Context context(worker);
  const at::Tensor y = peer(1).call(slow_backward, peer(2).call(times_weight, x).get()).get();
  std::thread killer([&] {
    eventually([&] { return counts(cluster[1]).passes == 1; });
    cluster.kill("worker1");
  });
  EXPECT_THROW(context.backward(y.sum()), PeerGoneError);
  killer.join();
  slow_gate().set_value();
  EXPECT_THROW(context.gradient(x), PeerGoneError);
  EXPECT_TRUE(eventually([&] { return peer(2).call(read_gradient).get().find("is gone") != std::string::npos; }));
  EXPECT_TRUE(eventually([&] { return counts(cluster[2]).passes == 0; }));
}

TEST_F(Backward, UnderAContextWhoseCreatorDiedStartsNone) {
  std::thread([&] {
    Context context(worker);
    peer(1).call(times_weight, x).get();
    const ContextView there = Context::find(cluster[1], context.id());
    cluster.kill("worker0");
    EXPECT_TRUE(eventually([&] { return counts(cluster[1]).ending; }));
    EXPECT_THAT(thrown<NotFoundError>([&] { there.backward(leaf(1).sum()); }), HasSubstr("has ended"));
  }).join();
  EXPECT_TRUE(nothing_left(cluster, {1}));
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

TEST_F(Backward, FastTakesHopsWithinAParticipant) {
  Context context(worker);
  context.backward(peer(1).call(through, x, "worker1").get().sum(), {.mode = Mode::fast});
  EXPECT_TRUE(same(context.gradient(x), threes(18)));
  EXPECT_TRUE(same(weight_gradient_at(worker, "worker1"), threes(60)));
}

TEST_F(Backward, FastWithAHopThatTheRootsDoNotDependOnIsAnErrorNotAHang) {
  {
    Context context(worker);
    const at::Tensor y = peer(1).call(times_weight, peer(2).call(times_weight, x).get()).get();
    const at::Tensor unused = peer(1).call(twice, x).get();
    EXPECT_THAT(
        thrown<TimeoutError>([&] { context.backward(y.sum(), {.mode = Mode::fast, .timeout = milliseconds(100)}); }),
        HasSubstr("waits for worker1"));
    for (const int rank : {1, 2})
      EXPECT_TRUE(eventually([&] { return peer(rank).call(read_gradient).get() != "readable"; })) << rank;
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1, 2}));
}

TEST_F(Backward, FastFailsEverywhereWhenANodeThrows) {
  {
    Context context(worker);
    const at::Tensor y = peer(1).call(breaks_backward, peer(2).call(times_weight, x).get()).get();
    EXPECT_THAT(thrown<RemoteError>([&] { context.backward(y.sum(), {.mode = Mode::fast}); }),
                AllOf(HasSubstr("worker1"), HasSubstr("broken on purpose")));
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1, 2}));
}

TEST_F(Backward, RefusesCompiledAutogradInWords) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  torch::autograd::Engine::set_compiled_autograd(
      [](const NodePointer&, const torch::autograd::GraphTask&, bool, const torch::autograd::edge_list& outputs) {
        return torch::autograd::variable_list(outputs.size());
      });
  const std::string error = thrown<InvalidArgumentError>([&] { context.backward(y.sum()); });
  torch::autograd::Engine::set_compiled_autograd(nullptr);
  EXPECT_THAT(error, HasSubstr("compiled autograd is on"));
}

TEST_F(Backward, ReportsWhatAnomalyModeFinds) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x.mul(0).sqrt().mul(0)).get();
  torch::autograd::AnomalyMode::set_enabled(true, /*check_nan=*/true);
  const std::string error = thrown<std::runtime_error>([&] { context.backward(y.sum()); });
  torch::autograd::AnomalyMode::set_enabled(false);
  EXPECT_THAT(error, HasSubstr("nan"));
}

}  // namespace
}  // namespace gradwire::autograd
