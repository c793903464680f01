// Backward passes that cannot be, or that fail: what is said, to whom, and that nothing stays.
#include <thread>

#include <torch/csrc/autograd/engine.h>

#include "tests/autograd/backward_support.h"

namespace gradwire::autograd {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using testing::eventually;
using ::testing::HasSubstr;

TEST_F(Backward, OverAGraphThatWasFreedSaysSoAndWhere) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  const at::Tensor sum = y.sum();
  context.backward(sum);
  EXPECT_THAT(thrown<RemoteError>([&] { context.backward(y.sum()); }),
              AllOf(HasSubstr("worker1"), HasSubstr("second time")));
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

// The root still reaches the one that is dead to a participant: it must hear of it from there.
TEST(BackwardOverTwoHops, B5_FailsWhenOnlyAParticipantLosesThePeerItWaitsFor) {
  constexpr Function<at::Tensor(at::Tensor)> gated{"gated"};
  constexpr Function<at::Tensor(at::Tensor)> over_gated{"over_gated"};
  slow_gate() = {};
  backward_runs = 0;
  Registry registry = functions_of_passes();
  registry.add(gated, [](const at::Tensor& x) { return Counted::apply(Slow::apply(x)); });
  registry.add(over_gated, [gated](const at::Tensor& x) {
    return Worker::current().peer("worker2").call(gated, x.mul(weight())).get().mul(2);
  });
  testing::Cluster cluster(3, registry);
  Context context(cluster[0]);
  const at::Tensor y = cluster[0].peer(1).call(over_gated, leaf(5)).get();
  std::thread cutter([&] {
    // worker2 has the gradient of worker1, which waits for what comes of it.
    EXPECT_TRUE(eventually([&] { return backward_runs == 1; }));
    WorkerAccess::core(cluster[1])
        .endpoint()
        ->session(WorkerAccess::core(cluster[2]).endpoint()->record())
        ->end_now(GoneReason::died, "a test took it for dead");
  });
  try {
    context.backward(y.sum(), {.timeout = std::chrono::seconds(30)});
    ADD_FAILURE() << "no error";
  } catch (const PeerGoneError& error) {
    EXPECT_EQ(error.worker(), "worker2");
    EXPECT_EQ(error.reason(), GoneReason::died);
  } catch (const TimeoutError& error) {
    ADD_FAILURE() << "nobody told the root: " << error.what();
  }
  cutter.join();
  EXPECT_TRUE(eventually([&] { return counts(cluster[1]).passes == 0; }));
  EXPECT_EQ(cluster[0].peer(2).call(twice, threes(1)).get().sum().item<double>(), 6) << "it lives";
  slow_gate().set_value();
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

TEST_F(Backward, FastWithAHopThatTheRootsDoNotDependOnIsAnErrorNotAHang) {
  {
    // The first pass of a process may take long, and the one that is to fail must come to worker 2 in time.
    Context context(worker);
    const at::Tensor y = peer(1).call(times_weight, peer(2).call(times_weight, x).get()).get();
    context.backward(y.sum(), {.mode = Mode::fast});
  }
  {
    Context context(worker);
    const at::Tensor y = peer(1).call(times_weight, peer(2).call(times_weight, x).get()).get();
    const at::Tensor unused = peer(1).call(twice, x).get();
    EXPECT_THAT(
        thrown<TimeoutError>([&] { context.backward(y.sum(), {.mode = Mode::fast, .timeout = milliseconds(1000)}); }),
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
  const std::string error = thrown<c10::Error>([&] { context.backward(y.sum()); });
  torch::autograd::AnomalyMode::set_enabled(false);
  EXPECT_THAT(error, HasSubstr("nan"));
}

}  // namespace
}  // namespace gradwire::autograd
