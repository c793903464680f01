// One of torch's optimizers over parameters of several workers: equal to the same one over the same parameters in one
// place, bit for bit.
#include <algorithm>
#include <filesystem>
#include <thread>

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/schedulers/step_lr.h>

#include "gradwire/nn/remote_module.h"
#include "gradwire/optim/distributed_optimizer.h"
#include "gradwire/rref/type_entry.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/thrown.h"

namespace gradwire::optim {
namespace {

using nn::RemoteModule;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::thrown;
using torch::optim::SGD;
using torch::optim::SGDOptions;

struct Layer : torch::nn::Module {
  Layer(int inputs, int outputs)
      : weight(register_parameter("weight", at::randn({outputs, inputs}))),
        bias(register_parameter("bias", at::randn({outputs}))) {}
  at::Tensor forward(const at::Tensor& x) { return at::linear(x, weight, bias); }
  // Someone else's gradients.
  void spoil() {
    for (const at::Tensor& parameter : parameters()) parameter.mutable_grad() = at::full_like(parameter, 1000);
  }
  // As a user may do, who loads values of his own.
  void exchange() { weight.set_data(at::full_like(weight, 2)); }
  bool is_spoiled() {
    return std::ranges::all_of(parameters(), [](const at::Tensor& parameter) {
      return parameter.grad().defined() && parameter.grad().equal(at::full_like(parameter, 1000));
    });
  }
  at::Tensor weight, bias;
};

struct Table : torch::nn::Module {
  Table(int rows, int columns) : weight(register_parameter("weight", at::randn({rows, columns}))) {}
  at::Tensor look_up(const at::Tensor& rows) { return at::embedding(weight, rows, -1, false, true); }
  at::Tensor weight;
};

Registry modules() {
  Registry registry;
  registry.add_type<Layer>("Layer")
      .constructor<int, int>()
      .method("forward", &Layer::forward)
      .method("spoil", &Layer::spoil)
      .method("exchange", &Layer::exchange)
      .method("is_spoiled", &Layer::is_spoiled);
  registry.add_type<Table>("Table").constructor<int, int>().method("look_up", &Table::look_up);
  return registry;
}

// A model of two layers on two workers, trained by a third, and the same in one place.
class OptimizerTest : public ::testing::Test {
 protected:
  testing::Cluster cluster{4, modules()};
  RemoteModule<Layer> first{cluster[0].peer(1), 4, 6};
  RemoteModule<Layer> second{cluster[0].peer(2), 6, 2};
  std::shared_ptr<Layer> first_here = twin(first, 4, 6), second_here = twin(second, 6, 2);

  static std::shared_ptr<Layer> twin(const RemoteModule<Layer>& module, int inputs, int outputs) {
    auto here = std::make_shared<Layer>(inputs, outputs);
    const at::NoGradGuard guard;
    for (const nn::NamedValue& one : nn::state(module).get()) here->named_parameters()[one.name].copy_(one.value);
    return here;
  }
  std::vector<RRef<at::Tensor>> references() const {
    std::vector<RRef<at::Tensor>> all = first.parameters().get();
    for (const RRef<at::Tensor>& one : second.parameters().get()) all.push_back(one);
    return all;
  }
  std::vector<at::Tensor> tensors() const {
    return {first_here->weight, first_here->bias, second_here->weight, second_here->bias};
  }
  static at::Tensor input(int step) { return at::arange(12, at::kFloat).reshape({3, 4}).add(step).sin(); }

  void pass(const autograd::Context& context, int step) const {
    context.backward(second.forward(first.forward(input(step)).relu()).square().sum());
  }
  void pass_here(int step) const {
    for (const at::Tensor& tensor : tensors()) tensor.mutable_grad().reset();
    second_here->forward(first_here->forward(input(step)).relu()).square().sum().backward();
  }
  void expect_equal() const {
    const std::vector<RRef<at::Tensor>> there = references();
    const std::vector<at::Tensor> here = tensors();
    for (size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(there[i].to_here().equal(here[i])) << "parameter " << i;
  }
};

template <class Optimizer>
class EachOptimizer : public OptimizerTest {};
using Kinds = ::testing::Types<torch::optim::SGD, torch::optim::Adam, torch::optim::AdamW, torch::optim::Adagrad,
                               torch::optim::RMSprop>;
struct KindName {
  template <class Optimizer>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming): as GoogleTest has it
    return Kind<Optimizer>::name;
  }
};
TYPED_TEST_SUITE(EachOptimizer, Kinds, KindName);

// Options that use every part of the rule.
template <class Optimizer>
OptionsOf<Optimizer> options() {
  OptionsOf<Optimizer> options(0.002);
  options.weight_decay(0.01);
  if constexpr (requires { options.momentum(0.9); }) options.momentum(0.9);
  if constexpr (requires { options.nesterov(true); }) options.nesterov(true);
  if constexpr (requires { options.amsgrad(true); }) options.amsgrad(true);
  if constexpr (requires { options.centered(true); }) options.centered(true);
  if constexpr (requires { options.lr_decay(0.1); }) options.lr_decay(0.1);
  return options;
}

TYPED_TEST(EachOptimizer, StepsAsInOnePlaceBitForBit) {
  DistributedOptimizer<TypeParam> there(this->references(), options<TypeParam>());
  TypeParam here(this->tensors(), options<TypeParam>());
  for (int step = 0; step < 5; ++step) {
    autograd::Context context(this->cluster[0]);
    this->pass(context, step);
    there.step(context);
    this->pass_here(step);
    here.step();
    this->expect_equal();
  }
}

TYPED_TEST(EachOptimizer, GoesOnFromWhatItSaved) {
  const auto path = std::filesystem::temp_directory_path() / ("gradwire-optimizer-" + std::to_string(getpid()));
  const auto one_step = [&](DistributedOptimizer<TypeParam>& optimizer, int step) {
    autograd::Context context(this->cluster[0]);
    this->pass(context, step);
    optimizer.step(context);
  };
  TypeParam here(this->tensors(), options<TypeParam>());
  for (int step = 0; step < 6; ++step) {
    this->pass_here(step);
    here.step();
  }
  {
    DistributedOptimizer<TypeParam> before(this->references(), options<TypeParam>());
    for (int step = 0; step < 3; ++step) one_step(before, step);
    save(before.state(), path);
  }
  DistributedOptimizer<TypeParam> after(this->references(), OptionsOf<TypeParam>(0.001));
  after.load_state(load_optimizer_state(path));
  for (int step = 3; step < 6; ++step) one_step(after, step);
  this->expect_equal();
  std::filesystem::remove(path);
}

TEST_F(OptimizerTest, GroupsHaveOptionsOfTheirOwn) {
  DistributedOptimizer<SGD> there(
      {{first.parameters().get(), SGDOptions(0.5)}, {second.parameters().get(), SGDOptions(0.1)}},
      SGDOptions(0.01).momentum(0.9));
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<at::Tensor>{first_here->weight, first_here->bias}, std::make_unique<SGDOptions>(0.5));
  groups.emplace_back(std::vector<at::Tensor>{second_here->weight, second_here->bias},
                      std::make_unique<SGDOptions>(0.1));
  SGD here(groups, SGDOptions(0.01).momentum(0.9));
  for (int step = 0; step < 3; ++step) {
    autograd::Context context(cluster[0]);
    pass(context, step);
    there.step(context);
    pass_here(step);
    here.step();
  }
  expect_equal();
}

TEST_F(OptimizerTest, FollowsTorchsOwnSchedulers) {
  DistributedOptimizer<torch::optim::Adam> there(references(), torch::optim::AdamOptions(0.1));
  torch::optim::Adam here(tensors(), torch::optim::AdamOptions(0.1));
  torch::optim::StepLR schedule_there(there.settings(), 2, 0.5), schedule_here(here, 2, 0.5);
  for (int step = 0; step < 6; ++step) {
    autograd::Context context(cluster[0]);
    pass(context, step);
    there.step(context);
    schedule_there.step();
    pass_here(step);
    here.step();
    schedule_here.step();
  }
  EXPECT_LT(there.settings().param_groups()[0].options().get_lr(), 0.1);
  expect_equal();
}

TEST_F(OptimizerTest, ClipsByTheNormOverAllWorkers) {
  DistributedOptimizer<torch::optim::SGD> there(references(), torch::optim::SGDOptions(0.1));
  torch::optim::SGD here(tensors(), torch::optim::SGDOptions(0.1));
  for (double limit : {0.5, 1e6}) {
    autograd::Context context(cluster[0]);
    pass(context, 1);
    pass_here(1);
    const double norm = torch::nn::utils::clip_grad_norm_(tensors(), limit);
    EXPECT_EQ(there.gradient_norm(context), norm);
    there.step(context, {.max_norm = limit});
    here.step();
    EXPECT_EQ(there.gradient_norm(context), norm) << "the gradients in the context stay what they were";
  }
  expect_equal();
}

TEST_F(OptimizerTest, C10_TakesGradientsFromTheContextAloneAndLeavesGradAlone) {
  for (const auto& layer : {first, second}) layer.reference().call(&Layer::spoil).get();
  DistributedOptimizer<SGD> optimizer(references(), SGDOptions(0.1));
  autograd::Context context(cluster[0]);
  context.backward(first.forward(input(0)).sum());  // the second layer has no part in it
  optimizer.step(context);
  first_here->forward(input(0)).sum().backward();
  SGD(tensors(), SGDOptions(0.1)).step();
  expect_equal();
  for (const auto& layer : {first, second}) EXPECT_TRUE(layer.reference().call(&Layer::is_spoiled).get());
}

TEST_F(OptimizerTest, AStepCountsAsAChangeForThoseWhoBeganBeforeIt) {
  DistributedOptimizer<SGD> optimizer(references(), SGDOptions(0.1));
  autograd::Context slow(cluster[0]);
  const at::Tensor loss = second.forward(first.forward(input(0)).relu()).square().sum();
  {
    autograd::Context quick(cluster[0]);
    pass(quick, 1);
    optimizer.step(quick);
  }
  EXPECT_THAT(thrown<Error>([&] { slow.backward(loss); }),
              AllOf(HasSubstr("modified by an inplace operation"), HasSubstr("hogwild")));
}

TEST_F(OptimizerTest, HogwildLetsThemGoOn) {
  DistributedOptimizer<SGD> optimizer(references(), SGDOptions(0.1), {.hogwild = true});
  autograd::Context slow(cluster[0]);
  const at::Tensor loss = second.forward(first.forward(input(0)).relu()).square().sum();
  {
    autograd::Context quick(cluster[0]);
    pass(quick, 1);
    optimizer.step(quick);
  }
  slow.backward(loss);
  optimizer.step(slow);
}

TEST_F(OptimizerTest, StepsOfSeveralTrainersAreSerialised) {
  constexpr int trainers = 4, steps = 25;
  const at::Tensor before = second.parameters().get()[1].to_here();
  std::vector<std::thread> threads;
  for (int trainer = 0; trainer < trainers; ++trainer)
    threads.emplace_back([&] {
      DistributedOptimizer<SGD> optimizer({second.parameters().get()[1]}, SGDOptions(1.0), {.hogwild = true});
      for (int step = 0; step < steps; ++step) {
        autograd::Context context(cluster[0]);
        // The gradient of the bias is 1 for each row, whatever the values are.
        context.backward(second.forward(at::zeros({1, 6})).sum());
        optimizer.step(context);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(second.parameters().get()[1].to_here().allclose(before - trainers * steps, 1e-4)) << "no step was lost";
}

TEST_F(OptimizerTest, SparseGradientsStaySparse) {
  const RRef<Table> table = cluster[0].peer(3).make<Table>(1000, 3);
  const at::Tensor before = nn::parameters(table).get()[0].to_here();
  DistributedOptimizer<SGD> optimizer(nn::parameters(table).get(), SGDOptions(1.0));
  autograd::Context context(cluster[0]);
  context.backward(table.call(&Table::look_up, at::tensor({7, 7, 9})).get().sum());
  optimizer.step(context);
  at::Tensor expected = before.clone();
  expected[7].sub_(2);
  expected[9].sub_(1);
  EXPECT_TRUE(nn::parameters(table).get()[0].to_here().allclose(expected));
}

TEST_F(OptimizerTest, FollowsAParameterWhoseStorageIsExchanged) {
  DistributedOptimizer<SGD> optimizer(second.parameters().get(), SGDOptions(1.0));
  second.reference().call(&Layer::exchange).get();
  autograd::Context context(cluster[0]);
  context.backward(second.forward(at::ones({1, 6})).sum());
  optimizer.step(context);
  EXPECT_TRUE(second.parameters().get()[0].to_here().equal(at::ones({2, 6})));
}

TEST_F(OptimizerTest, TakesParametersOfTheTrainerItself) {
  const at::Tensor mine = at::ones({2}).set_requires_grad(true);
  DistributedOptimizer<SGD> optimizer({cluster[0].share(at::Tensor(mine)), second.parameters().get()[0]},
                                      SGDOptions(0.5));
  autograd::Context context(cluster[0]);
  context.backward(second.forward(at::ones({1, 6})).mul(mine).sum());
  const at::Tensor gradient = context.gradient(mine);
  optimizer.step(context);
  EXPECT_TRUE(mine.allclose(1 - 0.5 * gradient));
}

TEST_F(OptimizerTest, SaysWhatIsWrong) {
  EXPECT_THAT(
      thrown<InvalidArgumentError>([&] { DistributedOptimizer<SGD>(std::vector<RRef<at::Tensor>>{}, SGDOptions(1)); }),
      HasSubstr("without parameters"));
  const std::vector<RRef<at::Tensor>> all = references();
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { DistributedOptimizer<SGD>({all[0], all[0]}, SGDOptions(1)); }),
              HasSubstr("twice"));
  DistributedOptimizer<SGD> same_tensor({all[0], first.parameters().get()[0]}, SGDOptions(1));
  autograd::Context context(cluster[0]);
  pass(context, 0);
  EXPECT_THAT(thrown<Error>([&] { same_tensor.step(context); }), HasSubstr("has already"));
  const RRef<at::Tensor> no_leaf = cluster[0].share(at::ones({2}).set_requires_grad(true).mul(2));
  DistributedOptimizer<SGD> of_no_leaf({no_leaf}, SGDOptions(1));
  EXPECT_THAT(thrown<Error>([&] { of_no_leaf.step(context); }), HasSubstr("takes leaves"));
  DistributedOptimizer<SGD> optimizer(all, SGDOptions(1));
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { optimizer.step(context, {.max_norm = -1}); }), HasSubstr("max_norm"));
  DistributedOptimizer<torch::optim::Adam> other(all, torch::optim::AdamOptions(1));
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { other.load_state(optimizer.state()); }),
              HasSubstr("another kind of optimizer"));
  EXPECT_THAT(thrown<InvalidArgumentError>([] { (void)load_optimizer_state("/dev/null"); }), HasSubstr("/dev/null"));
}

TEST_F(OptimizerTest, OfADeadOwnerSaysWho) {
  DistributedOptimizer<SGD> optimizer(references(), SGDOptions(0.1));
  autograd::Context context(cluster[0]);
  pass(context, 0);
  cluster.kill("worker2");
  EXPECT_THAT(thrown<OwnerGoneError>([&] { optimizer.step(context); }), HasSubstr("worker2"));
}

}  // namespace
}  // namespace gradwire::optim
