// Contexts: what travels under them stays differentiable; they are inherited, and they come to an end everywhere.
#include "gradwire/autograd/context.h"

#include <malloc.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include "tests/autograd/support.h"

namespace gradwire::autograd {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using testing::Cluster;
using testing::eventually;
using ::testing::HasSubstr;

constexpr Function<bool()> has_context{"has_context"};
constexpr Function<at::Tensor(at::Tensor)> in_task{"in_task"};
constexpr Function<at::Tensor(at::Tensor)> in_continuation{"in_continuation"};
constexpr Function<at::Tensor(at::Tensor)> without{"without"};
constexpr Function<bool(at::Tensor)> requires_grad{"requires_grad"};
constexpr Function<at::Tensor(at::Tensor)> leaves_work_behind{"leaves_work_behind"};
constexpr Function<void()> waits{"waits"};
constexpr Function<at::Tensor(at::Tensor)> times_weight_late{"times_weight_late"};
constexpr Function<std::map<std::string, std::vector<at::Tensor>>(std::map<std::string, std::vector<at::Tensor>>)>
    nested_containers{"nested_containers"};
struct Pair {
  at::Tensor first;
  std::optional<at::Tensor> second;
};
constexpr Function<Pair(Pair)> swapped{"swapped"};

// Opened by the test.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> open = promise.get_future().share();
};
Gate& gate() {
  static auto* gate = new Gate;
  return *gate;
}

struct Doubler {
  at::Tensor factor = leaf(2);
  at::Tensor forward(const at::Tensor& x) { return x.mul(factor); }
  at::Tensor gradient() { return Context::current().gradient(factor); }
};

Registry registry() {
  Registry registry = common_functions();
  registry.add(has_context, [] { return Context::has_current(); });
  registry.add(in_task, [](at::Tensor x) -> Task<at::Tensor> {
    const at::Tensor y = co_await Worker::current().peer("worker2").call(times_weight, x);
    co_return y.mul(2);
  });
  registry.add(in_continuation, [](const at::Tensor& x) {
    return Worker::current().peer("worker2").call(times_weight, x).then([](const at::Tensor& y) { return y.mul(2); });
  });
  registry.add(without, [](const at::Tensor& x) {
    const at::NoGradGuard guard;
    return Worker::current().self().call(times_weight, x).get();
  });
  registry.add(requires_grad, [](const at::Tensor& x) { return x.requires_grad(); });
  registry.add(waits, [] { gate().open.wait(); });
  registry.add(times_weight_late, [](const at::Tensor& x) {
    gate().open.wait();
    return x.mul(weight());
  });
  registry.add(leaves_work_behind, [](const at::Tensor& x) {
    // No one waits for it.
    static_cast<void>(Worker::current().peer("worker2").call(waits));
    return x.mul(weight());
  });
  registry.add(nested_containers, [](std::map<std::string, std::vector<at::Tensor>> all) {
    for (auto& [name, tensors] : all)
      for (at::Tensor& tensor : tensors)
        if (tensor.defined() && tensor.is_floating_point()) tensor = tensor.mul(2);
    return all;
  });
  registry.add(swapped, [](const Pair& pair) { return Pair{*pair.second, pair.first}; });
  registry.allow_operators("aten::mul");
  registry.add_type<Doubler>("Doubler")
      .constructor<>()
      .method("forward", &Doubler::forward)
      .method("gradient", &Doubler::gradient);
  return registry;
}

TEST(Context, MakesACallDifferentiable) {
  Cluster cluster(2, registry());
  const at::Tensor x = leaf(5);
  {
    Context context(cluster[0]);
    const at::Tensor y = cluster[0].peer("worker1").call(times_weight, x).get();
    EXPECT_TRUE(y.requires_grad());
    context.backward(y.sum());
    EXPECT_TRUE(same(context.gradient(x), threes(3)));
    EXPECT_TRUE(same(weight_gradient_at(cluster[0], "worker1"), threes(5)));
    EXPECT_FALSE(x.grad().defined()) << "A2: gradients live in the context";
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
}

TEST(Context, IsInheritedByNestedCallsTasksAndContinuations) {
  Cluster cluster(3, registry());
  for (const auto& function : {in_task, in_continuation}) {
    const at::Tensor x = leaf(5);
    Context context(cluster[0]);
    const at::Tensor y = cluster[0].peer("worker1").call(function, x).get();  // x * 3 * 2
    context.backward(y.sum());
    EXPECT_TRUE(same(context.gradient(x), threes(6)));
    EXPECT_TRUE(same(weight_gradient_at(cluster[0], "worker2"), threes(10)));
  }
  const at::Tensor x = leaf(5);
  {
    Context context(cluster[0]);
    context.backward(cluster[0].peer("worker1").call(through, x, "worker2").get().sum());  // x * 3 * 3 * 2
    EXPECT_TRUE(same(context.gradient(x), threes(18)));
    EXPECT_TRUE(same(weight_gradient_at(cluster[0], "worker1"), threes(30)));
    EXPECT_TRUE(same(weight_gradient_at(cluster[0], "worker2"), threes(30)));
  }
  {
    Context context(cluster[0]);
    // There and back to the caller, and to itself.
    context.backward(cluster[0].peer("worker1").call(through, x, "worker0").get().sum());
    EXPECT_TRUE(same(context.gradient(x), threes(18)));
    EXPECT_TRUE(same(weight_gradient_at(cluster[0], "worker0"), threes(30)));
  }
  {
    Context context(cluster[0]);
    context.backward(cluster[0].peer("worker1").call(through, x, "worker1").get().sum());
    EXPECT_TRUE(same(context.gradient(x), threes(18)));
    EXPECT_TRUE(same(weight_gradient_at(cluster[0], "worker1"), threes(60)));
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1, 2}));
}

TEST(Context, OfASelfCallIsTheSame) {
  Cluster cluster(1, registry());
  const at::Tensor x = leaf(5);
  Context context(cluster[0]);
  const at::Tensor y = cluster[0].self().call(times_weight, x).get();
  context.backward(y.mul(x).sum());  // 3 * x * x
  EXPECT_TRUE(same(context.gradient(x), threes(30)));
  EXPECT_TRUE(same(cluster[0].self().call(weight_gradient).get(), threes(25)));
}

TEST(Context, OfAnOperatorIsTheSame) {
  Cluster cluster(2, registry());
  const at::Tensor x = leaf(5);
  Context context(cluster[0]);
  const at::Tensor y = cluster[0].peer("worker1").op("aten::mul.Tensor", x, x).get().toTensor();
  context.backward(y.sum());
  EXPECT_TRUE(same(context.gradient(x), threes(10)));
}

TEST(Context, OfReferencesIsTheSame) {
  Cluster cluster(3, registry());
  const at::Tensor x = leaf(5);
  {
    Context context(cluster[0]);
    const RRef<at::Tensor> y = cluster[0].peer("worker1").remote(times_weight, x);
    const RRef<at::Tensor> z = cluster[0].peer("worker2").remote(twice, y.to_here());
    context.backward(z.to_here().add(y.to_here()).sum());  // 2 * 3 * x + 3 * x
    EXPECT_TRUE(same(context.gradient(x), threes(9)));
    EXPECT_TRUE(same(weight_gradient_at(cluster[0], "worker1"), threes(15)));
  }
  {
    Context context(cluster[0]);
    const RRef<Doubler> doubler = cluster[0].peer("worker1").make<Doubler>();
    const at::Tensor y = doubler.call(&Doubler::forward, x).get();
    const RRef<at::Tensor> z = doubler.remote(&Doubler::forward, y);
    context.backward(z.to_here().sum());  // 2 * 2 * x
    EXPECT_TRUE(same(context.gradient(x), threes(4)));
    EXPECT_TRUE(same(doubler.call(&Doubler::gradient).get(), threes(20)));
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1, 2}));
}

TEST(Context, WithoutOneTensorsArriveDetached) {
  Cluster cluster(2, registry());
  EXPECT_FALSE(cluster[0].peer("worker1").call(requires_grad, leaf(1)).get());
  EXPECT_FALSE(cluster[0].peer("worker1").call(times_weight, leaf(1)).get().requires_grad());
  EXPECT_FALSE(cluster[0].peer("worker1").call(has_context).get());
}

TEST(Context, MakesNoGraphForWhatNeedsNoGradient) {
  Cluster cluster(2, registry());
  Context context(cluster[0]);
  const at::Tensor y = cluster[0].peer("worker1").call(twice, threes(1)).get();
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(counts(cluster[0]).sends, 0);
  EXPECT_EQ(counts(cluster[1]).sends, 0);
  // Only the result.
  EXPECT_TRUE(cluster[0].peer("worker1").call(times_weight, threes(1)).get().requires_grad());
  EXPECT_EQ(counts(cluster[0]).sends, 0);
  EXPECT_EQ(counts(cluster[1]).sends, 1);
}

TEST(Context, C14_NoGradInsideItIsHonoured) {
  Cluster cluster(2, registry());
  Context context(cluster[0]);
  {
    const at::NoGradGuard guard;
    EXPECT_FALSE(cluster[0].peer("worker1").call(requires_grad, leaf(1)).get());
    EXPECT_FALSE(cluster[0].peer("worker1").call(times_weight, leaf(1)).get().requires_grad());
    EXPECT_FALSE(cluster[0].peer("worker1").call(through, leaf(1), "worker0").get().requires_grad());
  }
  EXPECT_FALSE(cluster[0].peer("worker1").call(without, leaf(1)).get().requires_grad());
  EXPECT_EQ(counts(cluster[1]).sends, 0);
  EXPECT_TRUE(cluster[0].peer("worker1").call(times_weight, leaf(1)).get().requires_grad());
}

TEST(Context, CarriesTensorsInContainersAndAggregatesMixedWithOthers) {
  Cluster cluster(2, registry());
  const at::Tensor x = leaf(5);
  const at::Tensor y = at::ones({2, 2}, at::kFloat).set_requires_grad(true);
  const at::Tensor z = at::complex(threes(1), threes(2)).set_requires_grad(true);
  {
    Context context(cluster[0]);
    const std::map<std::string, std::vector<at::Tensor>> given{{"a", {x, at::arange(3), threes(7)}},
                                                               {"b", {y, at::Tensor(), z}}};
    const auto result = cluster[0].peer("worker1").call(nested_containers, given).get();
    EXPECT_FALSE(result.at("a")[1].requires_grad());
    EXPECT_FALSE(result.at("a")[2].requires_grad());
    const at::Tensor& came = result.at("b")[2];
    context.backward({result.at("a")[0].sum(), result.at("b")[0].sum(), at::real(came.mul(came.conj())).sum()});
    EXPECT_TRUE(same(context.gradient(x), threes(2)));
    EXPECT_TRUE(same(context.gradient(y), at::full({2, 2}, 2.0F)));
    // Only floating point tensors are doubled there.
    EXPECT_TRUE(same(context.gradient(z), z.detach().mul(2)));
  }
  {
    Context context(cluster[0]);
    const Pair pair = cluster[0].peer("worker1").call(swapped, Pair{x, x.mul(2)}).get();
    context.backward(pair.first.sum().add(pair.second->mul(x).sum()));
    EXPECT_TRUE(same(context.gradient(x), threes(12)));
  }
}

TEST(Context, OfViewsIsOfTheView) {
  Cluster cluster(2, registry());
  const at::Tensor x = at::ones({4, 6}, at::kDouble).set_requires_grad(true);
  Context context(cluster[0]);
  const at::Tensor y = cluster[0].peer("worker1").call(twice, x.t().slice(0, 1, 3)).get();
  context.backward(y.sum());
  at::Tensor expected = at::zeros({4, 6}, at::kDouble);
  expected.slice(1, 1, 3).fill_(2);
  EXPECT_TRUE(same(context.gradient(x), expected));
}

TEST(Context, A2_ManyAtOnceDoNotTouchEachOther) {
  Cluster cluster(2, registry());
  const at::Tensor shared = leaf(5);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int step = 0; step < 50; ++step) {
        Context context(cluster[0]);
        const at::Tensor y = cluster[0].peer("worker1").call(times_weight, shared.mul(i)).get();
        context.backward(y.sum());
        if (!same(context.gradient(shared), threes(3.0 * i))) ++wrong;
        if (!same(weight_gradient_at(cluster[0], "worker1"), threes(5.0 * i))) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
}

TEST(Context, OneInAnotherIsCurrentUntilItEnds) {
  Cluster cluster(2, registry());
  EXPECT_FALSE(Context::has_current());
  Context outer(cluster[0]);
  {
    Context inner(cluster[0]);
    EXPECT_EQ(Context::current().id(), inner.id());
    EXPECT_NE(inner.id(), outer.id());
  }
  EXPECT_EQ(Context::current().id(), outer.id());
}

TEST(Context, EachEndsWithItsOwnObjectInWhateverOrder) {
  Cluster cluster(2, registry());
  auto context = std::make_unique<Context>(cluster[0]);
  for (int step = 0; step < 5; ++step) {
    context = std::make_unique<Context>(cluster[0]);  // the old one is destroyed after the new one was made
    cluster[0].peer("worker1").call(times_weight, leaf(1)).get();
    EXPECT_EQ(report(cluster[0]).size(), 1);
  }
  context.reset();
  EXPECT_FALSE(Context::has_current());
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
}

TEST(Context, IsBoundToFurtherThreadsByAGuard) {
  Cluster cluster(2, registry());
  const at::Tensor x = leaf(5);
  Context context(cluster[0]);
  at::Tensor y;
  std::thread([&] {
    EXPECT_FALSE(Context::has_current());
    const ContextGuard guard(context);
    y = cluster[0].peer("worker1").call(times_weight, x).get();
  }).join();
  context.backward(y.sum());
  EXPECT_TRUE(same(context.gradient(x), threes(3)));
}

TEST(Context, IsFoundByItsId) {
  Cluster cluster(2, registry());
  Id id;
  {
    Context context(cluster[0]);
    id = context.id();
    EXPECT_THAT(thrown<NotFoundError>([&] { Context::find(cluster[1], id); }), HasSubstr("worker1 does not know"));
    cluster[0].peer("worker1").call(times_weight, leaf(1)).get();
    EXPECT_EQ(Context::find(cluster[1], id).id(), id);
    EXPECT_EQ(Context::find(cluster[0], id).id(), id);
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
  EXPECT_THAT(thrown<NotFoundError>([&] { Context::find(cluster[0], id); }), HasSubstr("has ended"));
  EXPECT_THAT(thrown<NotFoundError>([&] { Context::current(); }), HasSubstr("no context is current here"));
}

TEST(Context, A3_IsReleasedEverywhereAfterItsEndWithAndWithoutGradients) {
  Cluster cluster(3, registry());
  for (const bool backward : {false, true}) {
    {
      Context context(cluster[0]);
      const at::Tensor y = cluster[0].peer("worker1").call(through, leaf(1), "worker2").get();
      EXPECT_EQ(report(cluster[1]).size(), 1);
      EXPECT_EQ(report(cluster[2]).size(), 1);
      if (backward) context.backward(y.sum());
    }
    EXPECT_TRUE(nothing_left(cluster, {0, 1, 2}));
  }
}

TEST(Context, C16_AO_StaysUntilWorkThatWasLeftBehindIsOver) {
  gate() = {};
  Cluster cluster(3, registry());
  const at::Tensor x = leaf(5);
  {
    Context context(cluster[0]);
    const at::Tensor y = cluster[0].peer("worker1").call(leaves_work_behind, x).get();
    context.backward(y.sum());
    EXPECT_TRUE(same(context.gradient(x), threes(3)));
  }
  // The call from worker1 to worker2 is under way: worker0 has heard `more` and not `Over`.
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(report(cluster[0]).size(), 1);
  EXPECT_EQ(report(cluster[1]).size(), 1);
  EXPECT_EQ(report(cluster[2]).size(), 1);
  gate().promise.set_value();
  EXPECT_TRUE(nothing_left(cluster, {0, 1, 2}));
}

TEST(Context, C16_AH_ACallThatOutlivesTheContextObjectKeepsIt) {
  Cluster cluster(2, registry());
  Future<at::Tensor> future = [&] {
    Context context(cluster[0]);
    return cluster[0].peer("worker1").call(times_weight, leaf(5));
  }();
  EXPECT_TRUE(same(future.get().detach(), threes(15)));
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
}

TEST(Context, C11_AS_M1_IsReleasedWhenItsCreatorDies) {
  Cluster cluster(3, registry());
  std::thread([&] {
    Context context(cluster[0]);
    cluster[0].peer("worker1").call(through, leaf(1), "worker2").get();
    EXPECT_EQ(report(cluster[1]).size(), 1);
    EXPECT_EQ(report(cluster[2]).size(), 1);
    cluster.kill("worker0");
  }).join();
  EXPECT_TRUE(nothing_left(cluster, {1, 2}));
}

TEST(Context, IsReleasedWhenAMemberDies) {
  Cluster cluster(3, registry());
  {
    Context context(cluster[0]);
    cluster[0].peer("worker1").call(through, leaf(1), "worker2").get();
    cluster.kill("worker2");
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
}

TEST(Context, OfAnotherWorkerOfTheProcessIsRefused) {
  Cluster cluster(2, registry());
  Context context(cluster[0]);
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { cluster[1].peer("worker0").call(has_context).get(); }),
              HasSubstr("each worker has contexts of its own"));
}

TEST(Context, ACallThatFailedOrTimedOutHoldsNothing) {
  gate() = {};
  Cluster cluster(2, registry());
  {
    Context context(cluster[0]);
    EXPECT_THROW(cluster[0].peer("worker1").call<at::Tensor>("no_such_function", leaf(1)).get(), NotFoundError);
    EXPECT_THROW(cluster[0].peer("worker1").with_timeout(milliseconds(1)).call(waits).get(), TimeoutError);
  }
  EXPECT_TRUE(eventually([&] { return report(cluster[0]).empty(); }));
  gate().promise.set_value();
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
}

TEST(Context, AN_ALateReplyDoesNotMakeItAgain) {
  gate() = {};
  Cluster cluster(2, registry());
  {
    Context context(cluster[0]);
    EXPECT_THROW(cluster[0].peer("worker1").with_timeout(milliseconds(5)).call(times_weight_late, leaf(1)).get(),
                 TimeoutError);
  }
  EXPECT_TRUE(eventually([&] { return report(cluster[0]).empty(); }));
  gate().promise.set_value();
  EXPECT_TRUE(eventually([&] { return cluster[1].metrics().functions_running == 0; }));
  cluster[0].peer("worker1").call(twice, leaf(1)).get();  // what was sent before it has arrived
  EXPECT_TRUE(report(cluster[0]).empty());
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
}

// The request reaches worker2 when its context has ended at its creator, which is asked, and says so.
TEST(Context, AN_AMemberOfOneThatHasEndedIsTold) {
  Cluster cluster(3, registry());
  {
    Context context(cluster[0]);
    cluster.network().cut("worker1", "worker2");
    const Peer other = cluster[0].peer(1).with_timeout(std::chrono::milliseconds(50));
    EXPECT_THROW(other.call(through, leaf(2), "worker2").get(), TimeoutError);
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
  cluster.network().heal("worker1", "worker2");
  EXPECT_TRUE(eventually([&] { return cluster[2].metrics().queued.count > 0; }));
  EXPECT_TRUE(nothing_left(cluster, {0, 1, 2}));
}

TEST(Context, C17_MemoryIsFlatOverManySteps) {
  Cluster cluster(3, registry());
  const at::Tensor x = leaf(5);
  const auto steps = [&](int count) {
    for (int i = 0; i < count; ++i) {
      Context context(cluster[0]);
      context.backward(cluster[0].peer("worker1").call(through, x, "worker2").get().sum());
    }
    EXPECT_TRUE(nothing_left(cluster, {0, 1, 2}));
  };
  steps(200);
  const size_t before = mallinfo2().uordblks;
  if (before == 0) GTEST_SKIP() << "this memory allocator does not say how much is in use";
  steps(2000);
  const size_t after = mallinfo2().uordblks;
  EXPECT_LT(after, before + 200'000) << "a hundred bytes a step would be as much";
}

TEST(Context, ShowsTheGraphOfTheStepOverAllWorkers) {
  Cluster cluster(3, registry());
  Context context(cluster[0]);
  const at::Tensor loss = cluster[0].peer("worker1").call(through, leaf(1).mul(2), "worker2").get().sum();
  const StepGraph graph = context.graph({loss});
  ASSERT_EQ(graph.parts.size(), 3);
  const std::string dot = graph.dot();
  for (const char* text : {"label=\"worker0\"", "label=\"worker1\"", "label=\"worker2\"", "\"Sum\"", "\"Mul\"",
                           "\"leaf [3]\"", "\"received\"", "\"sent\""})
    EXPECT_THAT(dot, HasSubstr(text));
  size_t leaves = 0;
  for (const GraphPart& part : graph.parts)
    for (const GraphPart::Node& node : part.nodes) {
      EXPECT_EQ(node.is_leaf, node.name == "leaf [3]") << node.name;
      leaves += node.is_leaf;
    }
  EXPECT_EQ(leaves, 3) << "what is given, and a weight on two workers";
  size_t hops = 0;
  for (size_t at = 0; (at = dot.find("dashed", at)) != std::string::npos; ++at) ++hops;
  EXPECT_EQ(hops, 4) << "there, on, back, and back";
  EXPECT_THAT(graph.svg(), AllOf(HasSubstr("<svg"), HasSubstr("worker2"), HasSubstr("stroke-dasharray")));
  if (const char* file = std::getenv("GRADWIRE_GRAPH_FILE")) std::ofstream(file) << graph.svg();
}

}  // namespace
}  // namespace gradwire::autograd
