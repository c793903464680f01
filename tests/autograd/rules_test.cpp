// Rules of contexts and passes that an ordinary program does not come near: each is brought about here.
#include <set>
#include <thread>

#include "gradwire/rpc/call_messages.h"
#include "gradwire/wire/id.h"

#include "tests/autograd/backward_support.h"

namespace gradwire::autograd {
namespace {

using namespace std::chrono_literals;
using testing::eventually;

using Rules = Backward;

TEST_F(Rules, A1_OneSendNodeForEachRecvNode) {
  Context context(worker);
  const at::Tensor y = peer(1).call(through, x, "worker2").get();
  const Tensors several_of_them = peer(2).call(several, y).get();
  const at::Tensor itself = worker.self().call(twice, several_of_them[0]).get();
  const at::Tensor root = itself.sum().add(several_of_them[3].sum());
  std::multiset<std::pair<uint64_t, uint64_t>> sent;
  std::multiset<std::pair<uint64_t, uint64_t>> received;
  for (const GraphPart& part : context.graph({root}).parts)
    for (const GraphPart::Node& node : part.nodes) {
      if (node.is_send) sent.emplace(node.hop_maker, node.hop);
      if (node.is_recv) received.emplace(node.hop_maker, node.hop);
    }
  EXPECT_EQ(sent.size(), 8U) << "four calls, there and back";
  EXPECT_EQ(sent, received);
  EXPECT_EQ(sent.size(), std::set(sent.begin(), sent.end()).size()) << "each with an id of its own";
}

TEST_F(Rules, AQ_AHopAndAMemberCountFromWhenTheMessageIsQueued) {
  {
    Context context(worker);
    peer(1).call(twice, x).get();
    const ContextState::Counts before = counts(worker);
    const auto prepare = [&] {
      net::Message message{.type = request_type, .head = {}, .payload = {}};
      message.payload.tensors.push_back(x);
      return Contexts::of(WorkerAccess::core(worker))
          ->prepare(message, std::make_shared<net::Record>(WorkerAccess::core(cluster[2]).endpoint()->record()));
    };
    prepare();  // and never queued
    EXPECT_EQ(counts(worker).sends, before.sends);
    EXPECT_EQ(counts(worker).members, before.members);
    wire::ByteWriter section;
    prepare()->board(section);
    EXPECT_EQ(counts(worker).sends, before.sends + 1);
    EXPECT_EQ(counts(worker).members, before.members + 1);

    cluster.kill("worker2");
    EXPECT_TRUE(eventually([&] {
      try {
        peer(2).call(twice, x).get();
      } catch (const PeerGoneError&) {
        return true;
      }
      return false;
    }));
    const size_t sends = counts(worker).sends;
    EXPECT_THROW(peer(2).call(twice, x).get(), PeerGoneError);
    EXPECT_EQ(counts(worker).sends, sends) << "to one that is gone";
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1}));
}

TEST_F(Rules, AX_AnUnknownContextOrHopIsRefusedByFailAndTheRestIsDropped) {
  Context context(worker);
  peer(1).call(times_weight, x).get();
  const WorkerCore& mine = WorkerAccess::core(worker);
  const Incarnation me = mine.endpoint()->record().incarnation;
  const Id ended{me, 999};
  const std::vector<uint64_t> no_such_hop{12345};
  const auto is_answered = [&](net::MessageType type, const Id& about, uint64_t answers,
                               const std::function<void(wire::ByteWriter&)>& rest) {
    const uint64_t before = messages_sent(1, 0);
    wire::ByteWriter head;
    wire::put_id(head, about);
    wire::put_id(head, Id{me, 77});
    rest(head);
    mine.endpoint()
        ->session(WorkerAccess::core(cluster[1]).endpoint()->record())
        ->send({.type = type, .head = head.take(), .payload = {}}, net::Admission::always);
    peer(1).call(twice, threes(1)).get();  // handled after that; and its answer is counted too
    return eventually([&] { return messages_sent(1, 0) == before + answers + 1; });
  };
  const auto begin = [&](wire::ByteWriter& to) {
    to.put(false);
    to.put(false);
    encode(to, no_such_hop);
  };
  const auto hops = [&](wire::ByteWriter& to) { encode(to, no_such_hop); };
  const auto gradient = [](wire::ByteWriter& to) {
    to.put(uint64_t{12345});
    to.put(false);
  };
  const auto done = [](wire::ByteWriter& to) { to.put(false); };
  const auto fail = [](wire::ByteWriter& to) {
    to.put_string(encode_cause(std::make_exception_ptr(std::runtime_error("a cause")), "worker0"));
  };
  for (const Id& about : {ended, context.id()}) {
    EXPECT_TRUE(is_answered(ask_type, about, 1, hops));
    EXPECT_TRUE(is_answered(begin_type, about, 1, begin));
    EXPECT_TRUE(is_answered(gradient_type, about, 0, gradient));
    EXPECT_TRUE(is_answered(done_type, about, 0, done));
  }
  EXPECT_TRUE(is_answered(fail_type, ended, 0, fail));
  EXPECT_EQ(report(cluster[1]).size(), 1U) << "none of this made a context";
  EXPECT_EQ(counts(cluster[1]).passes, 0U);
}

// worker2 could begin at once. But what worker1 depends on is not known, and it cannot be asked for now.
TEST_F(Rules, B2_NoneBeginsBeforeThePlanIsComplete) {
  Context context(worker);
  const at::Tensor y = peer(2).call(counted, x).get();
  const at::Tensor z = peer(1).call(goes_a_long_way, x).get();
  backward_runs = 0;
  cluster.network().cut("worker0", "worker1");
  std::thread pass([&] { context.backward(y.sum().add(z.sum())); });
  EXPECT_TRUE(eventually([&] { return counts(worker).passes == 1; }));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(counts(cluster[2]).passes, 0U);
  EXPECT_EQ(backward_runs, 0);
  cluster.network().heal("worker0", "worker1");
  pass.join();
  EXPECT_EQ(backward_runs, 1);
  EXPECT_TRUE(same(context.gradient(x), threes(4)));
}

TEST_F(Rules, B3_EveryPlannedHopGetsOneGradientMessageAlsoIfThereIsNoGradient) {
  Context context(worker);
  const at::Tensor y = peer(1).call(times_weight, x).get();
  const at::Tensor z = peer(1).call(ignored, x.mul(2)).get();
  const Tensors w = peer(1).call(several, x).get();
  const uint64_t sent = messages_sent(0, 1);
  const uint64_t received = messages_sent(1, 0);
  context.backward(y.sum().add(z.sum()).add(w[0].sum()).add(w[1].sum()));
  EXPECT_EQ(messages_sent(0, 1) - sent, 1U + 3U) << "Begin, and for each of three replies its gradients";
  EXPECT_EQ(messages_sent(1, 0) - received, 3U + 1U) << "for each of three requests, and Done";
  EXPECT_TRUE(same(context.gradient(x), threes(3 + 3 + 5)));
}

}  // namespace
}  // namespace gradwire::autograd
