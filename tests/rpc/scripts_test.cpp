// TorchScript modules and functions by name.
#include "gradwire/rpc/scripts.h"

#include <thread>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/jit.h>

#include "gradwire/base/error.h"

namespace gradwire {
namespace {

using c10::IValue;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

torch::jit::Module scaler(double by) {
  torch::jit::Module module("Scaler");
  module.register_buffer("by", at::full({}, by));
  module.register_attribute("calls", c10::IntType::get(), 0);
  module.define(R"(
    def forward(self, x):
      return x * self.by

    def scale(self, x: float, times: int = 2) -> float:
      return x * times

    def count(self) -> int:
      self.calls += 1
      return self.calls

    def both(self, x: Tensor, y: Optional[Tensor]):
      if y is None:
        return x, x
      return x, y

    def total(self, xs: List[Tensor], weights: Dict[str, float]) -> Tensor:
      sum = torch.zeros([])
      for x in xs:
        sum = sum + x.sum() * weights["w"]
      return sum

    def nothing(self, x: int):
      assert x > 0, "x must be positive"
  )");
  return module;
}

Scripts model() {
  Scripts scripts;
  scripts.add("model", scaler(3));
  return scripts;
}

TEST(Scripts, RunAMethodOfAModule) {
  EXPECT_TRUE(model().call("model", "forward", {at::ones({2})}).toTensor().equal(at::full({2}, 3.0)));
}

TEST(Scripts, FillInDefaultsAndConvertAsOperatorsDo) {
  Scripts scripts = model();
  EXPECT_EQ(scripts.call("model", "scale", {2}).toDouble(), 4);
  EXPECT_EQ(scripts.call("model", "scale", {2.5, 3}).toDouble(), 7.5);
  c10::impl::GenericList list(c10::AnyType::get());
  list.push_back(at::ones({2}));
  list.push_back(at::ones({3}));
  c10::impl::GenericDict weights(c10::AnyType::get(), c10::AnyType::get());
  weights.insert("w", 2);
  EXPECT_EQ(scripts.call("model", "total", {list, weights}).toTensor().item<double>(), 10);
}

TEST(Scripts, GiveATupleForSeveralResultsAndNoneForNone) {
  Scripts scripts = model();
  IValue both = scripts.call("model", "both", {at::ones({}), IValue()});
  ASSERT_TRUE(both.isTuple());
  EXPECT_EQ(both.toTupleRef().elements().size(), 2U);
  EXPECT_TRUE(scripts.call("model", "nothing", {1}).isNone());
}

TEST(Scripts, PassOnWhatTheScriptThrows) {
  EXPECT_THAT([] { model().call("model", "nothing", {0}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("x must be positive")));
}

TEST(Scripts, AreListedWhenTheNameIsUnknown) {
  EXPECT_THAT([] { Scripts().call("model", "forward", {}); }, ThrowsMessage<NotFoundError>(HasSubstr("there is none")));
  Scripts scripts = model();
  scripts.add("other", scaler(1));
  EXPECT_THAT(
      [&] { scripts.call("modle", "forward", {}); },
      ThrowsMessage<NotFoundError>(HasSubstr("\"modle\" is registered at the callee; there are: model, other")));
}

TEST(Scripts, ShowTheirMethodsWhenTheNameOfOneIsUnknown) {
  EXPECT_THAT([] { model().call("model", "backward", {}); },
              ThrowsMessage<NotFoundError>(AllOf(HasSubstr("script \"model\" has no \"backward\""),
                                                 HasSubstr("forward("), HasSubstr("float x, int times=2) -> float"))));
}

TEST(Scripts, SayWhichArgumentIsWrongAndShowTheSchema) {
  EXPECT_THAT([] { model().call("model", "scale", {"x"}); },
              ThrowsMessage<InvalidArgumentError>(AllOf(HasSubstr("argument 1, x, is str \"x\", float is wanted"),
                                                        HasSubstr("float x, int times=2) -> float"))));
  EXPECT_THAT([] { model().call("model", "forward", {}); },
              ThrowsMessage<InvalidArgumentError>(HasSubstr("argument 1, x, is missing")));
  EXPECT_THAT([] { model().call("model", "scale", {1.0, 2, 3}); },
              ThrowsMessage<InvalidArgumentError>(HasSubstr("3 are given, 2 are taken")));
}

TEST(Scripts, CannotBeGivenAModuleForAnArgument) {
  EXPECT_THROW(model().call("model", "forward", {scaler(1)._ivalue()}), InvalidArgumentError);
}

TEST(Scripts, ShareTheirModulesWithTheirCopies) {
  torch::jit::Module module = scaler(1);
  Scripts one;
  one.add("model", module);
  Scripts two = one;
  EXPECT_EQ(one.call("model", "count", {}).toInt(), 1);
  EXPECT_EQ(two.call("model", "count", {}).toInt(), 2);
  EXPECT_EQ(module.attr("calls").toInt(), 2);
  two.add("more", module);
  EXPECT_THROW(one.call("more", "count", {}), NotFoundError);
}

TEST(Scripts, MayBeReplacedUnderTheirName) {
  Scripts scripts = model();
  scripts.add("model", scaler(5));
  EXPECT_EQ(scripts.call("model", "forward", {at::ones({})}).toTensor().item<double>(), 5);
}

TEST(Scripts, MayBeFunctionsWithoutAModule) {
  Scripts scripts;
  scripts.add("maths", torch::jit::compile(R"(
    def twice(x):
      return x * 2

    def four_times(x):
      return twice(twice(x))
  )"));
  EXPECT_EQ(scripts.call("maths", "four_times", {at::ones({})}).toTensor().item<double>(), 4);
  EXPECT_THROW(scripts.call("maths", "thrice", {at::ones({})}), NotFoundError);
  EXPECT_THROW(scripts.call("maths", "twice", {1}), InvalidArgumentError);
}

TEST(Scripts, OutliveTheModuleThatWasAdded) {
  Scripts scripts;
  {
    torch::jit::Module module = scaler(2);
    scripts.add("model", module);
  }
  EXPECT_EQ(scripts.call("model", "forward", {at::ones({})}).toTensor().item<double>(), 2);
}

TEST(Scripts, RefuseBeforeTheyRun) {
  Scripts scripts = model();
  EXPECT_THROW((void)scripts.prepare("model", "scale", {"x"}), InvalidArgumentError);
  std::function<IValue()> count = scripts.prepare("model", "count", {});
  scripts = model();
  EXPECT_EQ(count().toInt(), 1);
}

TEST(Scripts, RunOnSeveralThreadsAtOnce) {
  Scripts scripts = model();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        at::Tensor x = at::full({3}, t * 100 + i);
        right += scripts.call("model", "forward", {x}).toTensor().equal(x.mul(3)) ? 1 : 0;
        right += scripts.call("model", "scale", {static_cast<double>(i), t}).toDouble() == i * t ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(right, 400);
}

}  // namespace
}  // namespace gradwire
