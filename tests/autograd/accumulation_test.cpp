// How gradients are added up in a context: what it takes over from torch's engine, and what it copies. A context that
// shared memory with anything else would change that in its next pass.
#include <torch/csrc/autograd/variable.h>

#include "tests/autograd/backward_support.h"

namespace gradwire::autograd {
namespace {

using Accumulation = Backward;

at::Tensor ascending() { return at::arange(6, at::kDouble); }
at::Tensor six(double value) { return at::full({6}, value, at::kDouble).set_requires_grad(true); }

TEST_F(Accumulation, A2_LeavesThatTorchGivesOneGradientDoNotShareIt) {
  Context context(worker);
  const at::Tensor a = six(1), b = six(2);
  const at::Tensor root = a.add(b).mul(ascending()).sum();
  context.backward(root, {.retain_graph = true});
  context.backward(root);
  EXPECT_TRUE(same(context.gradient(a), ascending().mul(2)));
  EXPECT_TRUE(same(context.gradient(b), ascending().mul(2)));
}

// torch 2.13's own backward() gives three times the gradient here.
TEST_F(Accumulation, A2_LeavesWhoseGradientsAreViewsOfOneTensorDoNotShareItsMemory) {
  Context context(worker);
  const at::Tensor a = six(1), b = six(2);
  const at::Tensor root = a.view({2, 3}).add(b.view({2, 3})).mul(ascending().view({2, 3})).sum();
  context.backward(root, {.retain_graph = true});
  context.backward(root);
  EXPECT_TRUE(same(context.gradient(a), ascending().mul(2)));
  EXPECT_TRUE(same(context.gradient(b), ascending().mul(2)));
}

TEST_F(Accumulation, AGradientThatNothingElseHoldsIsTakenOverAndNotCopied) {
  const at::Tensor a = six(1);
  const void* memory = nullptr;
  const unsigned hook = a.register_hook([&](const at::Tensor& gradient) { memory = gradient.const_data_ptr(); });
  for (const bool across_a_hop : {false, true}) {
    SCOPED_TRACE(across_a_hop);
    Context context(worker);
    const at::Tensor y = across_a_hop ? peer(1).call(twice, a).get() : a;
    context.backward(y.mul(ascending()).sum());
    ASSERT_NE(memory, nullptr);
    // A copy would be made while the first is still there, and so lie elsewhere.
    EXPECT_EQ(context.gradient(a).const_data_ptr(), memory);
  }
  a.remove_hook(hook);
}

TEST_F(Accumulation, AGradientThatAHookKeepsStaysWhatItWas) {
  for (const bool as_a_view : {false, true}) {
    SCOPED_TRACE(as_a_view);
    const at::Tensor a = six(1);
    std::vector<at::Tensor> kept;
    a.register_hook([&](const at::Tensor& gradient) { kept.push_back(as_a_view ? gradient.view({2, 3}) : gradient); });
    Context context(worker);
    const at::Tensor root = a.mul(ascending()).sum();
    context.backward(root, {.retain_graph = true});
    context.backward(root);
    ASSERT_EQ(kept.size(), 2U);
    for (const at::Tensor& gradient : kept) EXPECT_TRUE(same(gradient.view({6}), ascending()));
    EXPECT_TRUE(same(context.gradient(a), ascending().mul(2)));
  }
}

TEST_F(Accumulation, AGradientThatAHookMadeAndKeepsStaysWhatItWas) {
  const at::Tensor a = six(1);
  struct Tripled : torch::autograd::FunctionPreHook {
    explicit Tripled(std::vector<at::Tensor>& kept) : kept_(kept) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
      kept_.push_back(gradients[0].mul(3));
      return {kept_.back()};
    }
    std::vector<at::Tensor>& kept_;
  };
  std::vector<at::Tensor> kept;
  const auto accumulator = torch::autograd::impl::grad_accumulator(a);
  accumulator->add_pre_hook(std::make_unique<Tripled>(kept));
  Context context(worker);
  const at::Tensor root = a.mul(ascending()).sum();
  context.backward(root, {.retain_graph = true});
  context.backward(root);
  ASSERT_EQ(kept.size(), 2U);
  for (const at::Tensor& gradient : kept) EXPECT_TRUE(same(gradient, ascending().mul(3)));
  EXPECT_TRUE(same(context.gradient(a), ascending().mul(6)));
}

TEST_F(Accumulation, TheGradientThatARootIsGivenStaysWhatItWas) {
  Context context(worker);
  const at::Tensor a = six(1);
  const at::Tensor given = ascending();
  const at::Tensor root = a.view({6});
  context.backward({root}, {.gradients = {given}, .retain_graph = true});
  context.backward({root}, {.gradients = {given}});
  EXPECT_TRUE(same(given, ascending()));
  EXPECT_TRUE(same(context.gradient(a), ascending().mul(2)));
}

}  // namespace
}  // namespace gradwire::autograd
