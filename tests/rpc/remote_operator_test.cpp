// Operators and TorchScript on another worker.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"

namespace gradwire {
namespace {

using testing::Cluster;
using ::testing::HasSubstr;

Registry make_registry() {
  Registry registry;
  registry.allow_operators("aten::*");
  torch::jit::Module model("model");
  model.register_parameter("weight", at::full({3}, 2.0), false);
  model.define("def forward(self, x):\n  return x * self.weight\ndef fail(self, x):\n  return x.view([7])\n");
  registry.add_script("model", model);
  return registry;
}

TEST(RemoteOperator, RunsByNameAndGivesAnIValue) {
  Cluster cluster(2, make_registry());
  Peer peer = cluster[0].peer(1);
  const at::Tensor a = at::ones({3});
  EXPECT_TRUE(peer.op("aten::add.Tensor", a, a, 1).get().toTensor().equal(at::full({3}, 2.0)));
  EXPECT_TRUE(peer.op("aten::add.Tensor", a, a).get().toTensor().equal(at::full({3}, 2.0)));
  EXPECT_EQ(peer.op("aten::max.dim", a, 0).get().toTuple()->elements().size(), 2U);
  EXPECT_TRUE(cluster[0].self().op("aten::neg", a).get().toTensor().equal(a.neg()));
}

TEST(RemoteOperator, IsRefusedInWordsOrFailsAsTheOperatorDoes) {
  Cluster cluster(2, make_registry());
  Peer peer = cluster[0].peer(1);
  EXPECT_THROW(peer.op("aten::from_file", "/etc/passwd").get(), NotFoundError);
  EXPECT_THROW(peer.op("aten::no_such", 1).get(), NotFoundError);
  EXPECT_THROW(peer.op("aten::add.Tensor", "text", 2).get(), InvalidArgumentError);
  try {
    peer.op("aten::add.Tensor", at::ones({2}), at::ones({3})).get();
    FAIL() << "no error";
  } catch (const RemoteError& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"aten::add.Tensor\" failed at worker1: c10::Error: The size of tensor a"));
  }
  Cluster none(2, Registry());
  EXPECT_THROW(none[0].peer(1).op("aten::neg", at::ones({1})).get(), NotFoundError);
}

TEST(RemoteScript, RunsMethodsOfModulesThatTheCalleeHas) {
  Cluster cluster(2, make_registry());
  Peer peer = cluster[0].peer(1);
  EXPECT_TRUE(peer.script("model", "forward", at::ones({3})).get().toTensor().equal(at::full({3}, 2.0)));
  EXPECT_THROW(peer.script("model", "backward", at::ones({3})).get(), NotFoundError);
  EXPECT_THROW(peer.script("other", "forward", at::ones({3})).get(), NotFoundError);
  EXPECT_THROW(peer.script("model", "forward", at::ones({3}), 2).get(), InvalidArgumentError);
  EXPECT_THROW(peer.script("model", "fail", at::ones({3})).get(), RemoteError);
}

}  // namespace
}  // namespace gradwire
