// References in IValues, and in TorchScript.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/jit.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"

namespace gradwire {
namespace {

using testing::Cluster;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Function<at::Tensor()> three{"three"};
constexpr Function<c10::IValue(c10::IValue)> identity{"identity"};
constexpr Function<double(std::vector<RRef<at::Tensor>>)> sum_of{"sum_of"};
struct Pair {
  RRef<at::Tensor> first;
  std::optional<RRef<at::Tensor>> second;
  std::string name;
};
constexpr Function<Pair(Pair)> swapped{"swapped"};

std::shared_ptr<torch::jit::CompilationUnit> functions() {
  return torch::jit::compile(R"(
    def choose(first: bool, a: RRef[Tensor], b: RRef[Tensor]) -> RRef[Tensor]:
      if first:
        return a
      return b

    def listed(a: RRef[Tensor]) -> List[RRef[Tensor]]:
      return [a, a]
  )");
}

Registry make_registry() {
  Registry registry;
  registry.add(three, [] { return at::full({}, 3.0); });
  registry.add(identity, [](c10::IValue value) { return value; });
  registry.add(sum_of, [](const std::vector<RRef<at::Tensor>>& all) {
    double sum = 0;
    for (const RRef<at::Tensor>& one : all) sum += one.to_here().item<double>();
    return sum;
  });
  registry.add(swapped, [](const Pair& pair) { return Pair{*pair.second, pair.first, pair.name + "!"}; });
  registry.add_script("functions", functions());
  return registry;
}

TEST(ReferenceValue, TravelsInsideContainersAndStructs) {
  Cluster cluster(3, make_registry());
  const RRef<at::Tensor> a = cluster[0].share(at::full({}, 2.0));
  const RRef<at::Tensor> b = cluster[0].peer(1).remote(three);
  EXPECT_EQ(cluster[0].peer(2).call(sum_of, std::vector{a, b, a}).get(), 7.0);
  const Pair pair = cluster[0].peer(2).call(swapped, Pair{a, b, "name"}).get();
  EXPECT_EQ(pair.first, b);
  EXPECT_EQ(pair.second, a);
  EXPECT_EQ(pair.name, "name!");
}

TEST(ReferenceValue, TravelsAsAnIValueAloneInListsAndInTuples) {
  Cluster cluster(2, make_registry());
  const RRef<at::Tensor> a = cluster[0].share(at::full({}, 2.0));
  EXPECT_EQ(RRef<at::Tensor>::from(cluster[0].peer(1).call(identity, a).get()), a);
  const c10::IValue tuple = c10::ivalue::Tuple::create({c10::IValue(a), c10::IValue(3)});
  const c10::IValue back = cluster[0].peer(1).call(identity, tuple).get();
  EXPECT_EQ(RRef<at::Tensor>::from(back.toTupleRef().elements()[0]), a);
  c10::impl::GenericList list(c10::IValue(a).type());
  list.push_back(a);
  list.push_back(a);
  const c10::IValue listed = cluster[0].peer(1).call(identity, c10::IValue(list)).get();
  EXPECT_EQ(listed.toList().size(), 2U);
  EXPECT_EQ(RRef<at::Tensor>::from(listed.toList().get(1)), a);
}

TEST(ReferenceValue, IsTakenAndReturnedByScripts) {
  Cluster cluster(3, make_registry());
  const RRef<at::Tensor> a = cluster[0].share(at::full({}, 2.0));
  const RRef<at::Tensor> b = cluster[0].share(at::full({}, 3.0));
  Peer peer = cluster[0].peer(1);
  EXPECT_EQ(RRef<at::Tensor>::from(peer.script("functions", "choose", false, a, b).get()), b);
  EXPECT_EQ(peer.script("functions", "listed", a).get().toList().size(), 2U);
  const RRef<c10::IValue> kept = peer.remote_script("functions", "choose", true, a, b);
  EXPECT_EQ(RRef<at::Tensor>::from(kept.to_here()).to_here().item<double>(), 2.0);
  EXPECT_THROW(peer.script("functions", "choose", true, a, 3).get(), InvalidArgumentError);
}

TEST(ReferenceValue, ScriptsThatWouldUseItAsTorchsOwnAreRefusedInWords) {
  // In a process without Python the operator is not there, so the script is put together by hand.
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::Value* reference = graph->addInput();
  torch::jit::Node* fetch = graph->create(c10::Symbol::fromQualString("aten::to_here"), {reference});
  graph->registerOutput(graph->insertNode(fetch)->output());
  auto unit = std::make_shared<torch::jit::CompilationUnit>();
  unit->create_function("value", graph);
  Registry registry;
  EXPECT_THAT(
      [&] { registry.add_script("bad", unit); },
      ThrowsMessage<InvalidArgumentError>(HasSubstr("the script \"bad\" cannot be registered: its \"value\" uses")));
}

}  // namespace
}  // namespace gradwire
