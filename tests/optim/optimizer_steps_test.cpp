// What a step leaves as it was: parameters without a gradient, and settings of a step that failed.
#include "gradwire/optim/distributed_optimizer.h"

#include "tests/autograd/support.h"

namespace gradwire::optim {
namespace {

using autograd::Context;
using autograd::get_weight;
using autograd::same;
using autograd::threes;
using autograd::times_weight;
using torch::optim::SGD;
using torch::optim::SGDOptions;

// A parameter of three numbers, 3 at first, on each of two workers, for trainers on a third.
class OptimizerSteps : public ::testing::Test {
 protected:
  RRef<at::Tensor> weight_of(int rank) { return worker.peer(rank).remote(get_weight); }
  at::Tensor times_weight_of(int rank) { return worker.peer(rank).call(times_weight, x).get(); }

  testing::Cluster cluster{3, autograd::common_functions()};
  Worker& worker = cluster[0];
  const at::Tensor x = autograd::leaf(5);
};

TEST_F(OptimizerSteps, AParameterWithoutAGradientCountsAsUnchanged) {
  DistributedOptimizer<SGD> optimizer({weight_of(1), weight_of(2)}, SGDOptions(0.1));
  Context slow(worker);
  const at::Tensor of_slow = times_weight_of(2);
  {
    Context quick(worker);
    quick.backward(times_weight_of(1).sum());
    optimizer.step(quick);
  }
  slow.backward(of_slow.sum());  // torch's in-place error, if the step had counted as a change of worker2's
  EXPECT_TRUE(same(slow.gradient(x), threes(3)));
  EXPECT_TRUE(same(weight_of(1).to_here(), threes(3 - 0.1 * 5))) << "the step was made";
  EXPECT_TRUE(same(weight_of(2).to_here(), threes(3)));
}

TEST_F(OptimizerSteps, SettingsThatAFailedStepDidNotBringToTheOwnersComeWithTheNext) {
  DistributedOptimizer<SGD> optimizer({weight_of(1)}, SGDOptions(1.0));
  optimizer.settings().param_groups()[0].options().set_lr(0.25);
  {
    Context of_another(cluster[2]);
    EXPECT_THROW(optimizer.step(of_another), InvalidArgumentError) << "a context that nothing can be sent under";
  }
  Context context(worker);
  context.backward(times_weight_of(1).sum());
  optimizer.step(context);
  EXPECT_TRUE(same(weight_of(1).to_here(), threes(3 - 0.25 * 5)));
}

}  // namespace
}  // namespace gradwire::optim
