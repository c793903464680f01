// Messages that the protocol does not allow, as a broken peer might send them: they change nothing that is not the
// sender's, and what cannot be used is an error in words.
#include <ATen/ops/ones.h>

#include "gradwire/autograd/context_messages.h"
#include "gradwire/autograd/pass.h"
#include "gradwire/wire/id.h"

#include "tests/autograd/backward_support.h"

namespace gradwire::autograd {
namespace {

using testing::eventually;
using ::testing::HasSubstr;

class ForeignMessages : public Backward {
 protected:
  // Also waits until it has arrived.
  void tell(int from, int to, net::MessageType type, wire::ByteWriter head, Tensors tensors = {}) {
    net::Message message{.type = type, .head = head.take(), .payload = {}};
    message.payload.tensors = std::move(tensors);
    const SurroundingsGuard outside{Surroundings()};  // the context that is current here is another worker's
    Contexts::of(WorkerAccess::core(cluster[from]))
        ->place()
        .exchange->send(WorkerAccess::core(cluster[to]).endpoint()->record(), std::move(message),
                        net::Admission::always);
    cluster[from].peer(to).call(twice, at::ones({1})).get();  // arrives after it
  }
  static wire::ByteWriter ids(Id context, std::optional<Id> pass = {}) {
    wire::ByteWriter head;
    wire::put_id(head, context);
    if (pass) wire::put_id(head, *pass);
    return head;
  }
  void tell_begin(int from, int to, Id context, Id pass, const std::vector<uint64_t>& hops) {
    wire::ByteWriter head = ids(context, pass);
    head.put(false);  // no retain_graph
    head.put(false);  // no create_graph
    encode(head, hops);
    tell(from, to, begin_type, std::move(head));
  }
  void tell_gradient(int from, int to, Id context, Id pass, uint64_t hop, Tensors tensors) {
    wire::ByteWriter head = ids(context, pass);
    head.put(hop);
    head.put(false);  // not a fast one
    tell(from, to, gradient_type, std::move(head), std::move(tensors));
  }
  // One that this worker has not made yet.
  Id some_pass() { return {.maker = worker.self().incarnation(), .counter = 1'000'000}; }
  std::shared_ptr<ContextState> state_at(int rank, Id context) {
    return Contexts::of(WorkerAccess::core(cluster[rank]))->find(context)->context;
  }
};

// A pass that waits for worker1, and what is sent to it meanwhile.
class ForeignGradients : public ForeignMessages {
 protected:
  void begin() {
    y = peer(1).call(slow_backward, x).get();
    runs = std::async(std::launch::async, [this] { context.backward(y.sum()); });
    ASSERT_TRUE(eventually([&] { return counts(cluster[1]).passes == 1; }));
  }
  void send_gradient(int from, Tensors tensors) {
    const std::shared_ptr<Pass> pass = state_at(0, context.id())->passes().at(0);
    tell_gradient(from, 0, context.id(), pass->id(), pass->planned().begin()->first, std::move(tensors));
  }
  void expect_failure(Tensors tensors, const std::string& words) {
    begin();
    send_gradient(1, std::move(tensors));
    EXPECT_THAT(thrown<InvalidArgumentError>([&] { runs.get(); }), HasSubstr(words));
    slow_gate().set_value();
  }
  Context context{worker};
  at::Tensor y;
  std::future<void> runs;
};

TEST_F(ForeignGradients, OfAnotherShapeFailThePassInWords) {
  expect_failure({at::ones({2, 2}, at::kDouble)}, "worker1 sent a gradient of shape [2, 2]");
}

// It could be summed up to the shape, and would be wrong.
TEST_F(ForeignGradients, OfAShapeThatBroadcastsFailThePassToo) {
  expect_failure({at::ones({4, 3}, at::kDouble)}, "worker1 sent a gradient of shape [4, 3]");
}

TEST_F(ForeignGradients, OfAnotherTypeFailThePassInWords) {
  expect_failure({at::ones({3}, at::kFloat)}, "type float for a tensor of type double");
}

TEST_F(ForeignGradients, OfAnotherNumberFailThePassInWords) {
  expect_failure({at::ones({3}, at::kDouble), at::ones({3}, at::kDouble)}, "worker1 sent 2 gradients for 1 tensors");
}

TEST_F(ForeignGradients, FromAnotherThanTheHopsReceiverAreDropped) {
  begin();
  send_gradient(2, {threes(100)});
  slow_gate().set_value();
  runs.get();
  EXPECT_TRUE(same(context.gradient(x), threes(1)));
}

// Also one that is there before the participant begins.
TEST_F(ForeignMessages, AGradientOfAnotherShapeThatBeginsAPassFailsItInWords) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  const uint64_t hop = state_at(1, context.id())->all_sends().begin()->first;
  tell_begin(0, 1, context.id(), some_pass(), {hop});
  tell_gradient(0, 1, context.id(), some_pass(), hop, {at::ones({2}, at::kDouble)});
  const auto failed = [&] { return state_at(1, context.id())->counts().passes == 0; };
  EXPECT_TRUE(eventually(failed));
  EXPECT_THAT(peer(1).call(read_gradient).get(), HasSubstr("worker0 sent a gradient of shape [2]"));
}

TEST_F(ForeignMessages, OnlyItsCreatorEndsAContext) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  tell(2, 1, end_type, ids(context.id()));
  EXPECT_FALSE(counts(cluster[1]).ending);
  context.backward(y.sum());
  EXPECT_TRUE(same(context.gradient(x), threes(3)));
}

TEST_F(ForeignMessages, OnlyItsRootBeginsAPass) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  tell_begin(2, 1, context.id(), some_pass(), {});
  EXPECT_EQ(counts(cluster[1]).passes, 0);
  tell_begin(0, 1, context.id(), some_pass(), {});  // the same bytes, from the root
  EXPECT_EQ(counts(cluster[1]).passes, 1);
}

// AN: what its creator does not have any more has ended. A request of that context is refused there.
TEST(Context, AN_ItsCreatorDoesNotMakeItAgain) {
  static std::promise<void> running, gate, called;
  static std::atomic<int> runs = 0;
  running = {};
  gate = {};
  called = {};
  runs = 0;
  static constexpr Function<at::Tensor(at::Tensor)> counts_runs{"counts_runs"};
  constexpr Function<void(at::Tensor)> calls_back{"calls_back"};
  Registry registry = common_functions();
  registry.add(counts_runs, [](const at::Tensor& given) {
    ++runs;
    return given;
  });
  registry.add(calls_back, [](const at::Tensor& given) {
    running.set_value();
    gate.get_future().wait();
    const Future<at::Tensor> back = Worker::current().peer("worker0").call(counts_runs, given);
    called.set_value();
    back.wait();
  });
  testing::Cluster cluster(2, registry);
  {
    Context context(cluster[0]);
    const Future<void> call = cluster[0].peer(1).with_timeout(std::chrono::milliseconds(300)).call(calls_back, leaf(2));
    running.get_future().wait();
    cluster.network().cut("worker0", "worker1");
    gate.set_value();
    called.get_future().wait();  // the request is on its way, and does not arrive
    EXPECT_THROW(call.get(), TimeoutError);
  }
  EXPECT_TRUE(nothing_left(cluster, {0}));
  cluster.network().heal("worker0", "worker1");
  cluster[1].peer(0).call(twice, at::ones({1})).get();  // arrives after it
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
  EXPECT_EQ(runs, 0);
}

TEST(Context, AN_ACallToItsCreatorUnderOneThatHasEndedSaysSo) {
  testing::Cluster cluster(2, common_functions());
  {
    const ContextView there = [&] {
      Context context(cluster[0]);
      cluster[0].peer(1).call(twice, leaf(2)).get();
      return Context::find(cluster[1], context.id());
    }();
    EXPECT_TRUE(nothing_left(cluster, {0}));
    const ContextGuard guard(there);
    EXPECT_THAT(thrown<NotFoundError>([&] { cluster[1].peer(0).call(times_weight, leaf(1)).get(); }),
                ::testing::AllOf(HasSubstr("worker0"), HasSubstr("has ended")));
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
}

}  // namespace
}  // namespace gradwire::autograd
