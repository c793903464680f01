// Modules that live elsewhere, and a split model in one file.
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>

#include "gradwire/nn/checkpoint.h"
#include "gradwire/nn/remote_module.h"
#include "gradwire/rref/type_entry.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/thrown.h"

namespace gradwire::nn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown;

struct Net : torch::nn::Module {
  explicit Net(int width)
      : linear(register_module("linear", torch::nn::Linear(width, width))),
        norm(register_module("norm", torch::nn::BatchNorm1d(width))),
        dropout(register_module("dropout", torch::nn::Dropout(0.5))) {}
  at::Tensor forward(const at::Tensor& x) { return dropout->forward(norm->forward(linear->forward(x))); }
  bool trains() { return is_training(); }
  torch::nn::Linear linear;
  torch::nn::BatchNorm1d norm;
  torch::nn::Dropout dropout;
};

struct Whole : torch::nn::Module {
  Whole()
      : left(register_module("left", std::make_shared<Net>(3))),
        right(register_module("right", std::make_shared<Net>(3))) {}
  std::shared_ptr<Net> left, right;
};

struct NoModule {
  int value = 0;
};

Registry modules() {
  Registry registry;
  registry.add_type<Net>("Net").constructor<int>().method("forward", &Net::forward).method("trains", &Net::trains);
  registry.add_type<torch::nn::Linear>("Linear").constructor<int, int>().method("forward",
                                                                                &torch::nn::LinearImpl::forward);
  registry.add_type<NoModule>("NoModule").constructor<>();
  return registry;
}

class ModuleTest : public ::testing::Test {
 protected:
  testing::Cluster cluster{3, modules()};
  RemoteModule<Net> left{cluster[0].peer(1), 3};
  RemoteModule<Net> right{cluster[0].peer(2), 3};
  const Parts parts{{"left", left}, {"right", right}};
  const std::string path = std::filesystem::temp_directory_path() / ("gradwire model " + std::to_string(getpid()));
  ~ModuleTest() override { std::filesystem::remove(path); }
};

TEST_F(ModuleTest, RunsThereAndIsTrainedAndEvaluated) {
  const at::Tensor x = at::randn({4, 3});
  EXPECT_TRUE(left.reference().call(&Net::trains).get());
  left.eval();
  EXPECT_FALSE(left.reference().call(&Net::trains).get());
  const at::Tensor y = left.forward(x);
  EXPECT_TRUE(left.forward_async(x).get().equal(y)) << "nothing is random in evaluation";
  left.train();
  EXPECT_TRUE(left.reference().call(&Net::trains).get());
}

TEST_F(ModuleTest, ParametersAndBuffersAreReferencesToTheVeryTensors) {
  std::vector<std::string> names;
  for (const auto& [name, reference] : left.named_parameters().get()) {
    names.push_back(name);
    EXPECT_EQ(reference.owner().name(), "worker1");
  }
  EXPECT_THAT(names, ElementsAre("linear.weight", "linear.bias", "norm.weight", "norm.bias"));
  EXPECT_EQ(left.parameters().get().size(), 4U);
  const auto buffers = left.named_buffers().get();
  ASSERT_EQ(buffers.at(2).first, "norm.num_batches_tracked");
  EXPECT_EQ(buffers[2].second.to_here().item<int64_t>(), 0);
  left.forward(at::randn({4, 3}));
  EXPECT_EQ(buffers[2].second.to_here().item<int64_t>(), 1);
}

TEST_F(ModuleTest, ParametersOfSeveralComeOneAfterTheOther) {
  const RemoteModule<torch::nn::Linear> linear(cluster[0].peer(1), 2, 5);
  const std::vector<RRef<at::Tensor>> all = parameters({left, linear}).get();
  ASSERT_EQ(all.size(), 6U);
  EXPECT_EQ(all[0].to_here().sizes(), left.parameters().get()[0].to_here().sizes());
  EXPECT_EQ(all[4].to_here().sizes(), (std::vector<int64_t>{5, 2}));
  EXPECT_TRUE(parameters(std::vector<ModuleReference>()).get().empty());
}

TEST_F(ModuleTest, HoldersOfTorchAreModulesToo) {
  const RemoteModule<torch::nn::Linear> linear(cluster[0].peer(1), 2, 5);
  EXPECT_EQ(linear.forward(at::ones({7, 2})).sizes(), (std::vector<int64_t>{7, 5}));
  EXPECT_EQ(linear.parameters().get().at(0).to_here().sizes(), (std::vector<int64_t>{5, 2}));
}

TEST_F(ModuleTest, OfANewModuleIsUsedBeforeItIsThereAndKeepsItsError) {
  const RemoteModule<Net> wrong(cluster[0].peer(1), -1);
  EXPECT_THAT(thrown<Error>([&] { wrong.parameters().get(); }), HasSubstr("worker1"));
}

TEST_F(ModuleTest, AReferenceToSomethingElseIsRefusedInWords) {
  const RRef<NoModule> other = cluster[0].peer(1).make<NoModule>();
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { parameters(ModuleReference(other.reference())).get(); }),
              AllOf(HasSubstr("NoModule"), HasSubstr("no torch::nn module")));
}

TEST_F(ModuleTest, ASplitModelIsSavedToAndLoadedFromOneFile) {
  left.forward(at::randn({4, 3}));
  const auto saved = state(left).get();
  save(parts, path);
  load_state(left, state(right).get()).get();
  EXPECT_FALSE(state(left).get()[0].value.equal(saved[0].value));
  load(parts, path);
  const auto loaded = state(left).get();
  ASSERT_EQ(loaded.size(), saved.size());
  for (size_t i = 0; i < saved.size(); ++i) EXPECT_TRUE(loaded[i].value.equal(saved[i].value)) << saved[i].name;
}

TEST_F(ModuleTest, TheWholeIsAModuleThatTorchSavesAndLoads) {
  left.forward(at::randn({4, 3}));
  torch::save(gather(parts), path);
  auto whole = std::make_shared<Whole>();
  torch::load(whole, path);
  EXPECT_TRUE(whole->left->linear->weight.equal(state(left).get()[0].value));
  EXPECT_TRUE(whole->right->linear->weight.equal(state(right).get()[0].value));
  EXPECT_EQ(whole->left->norm->num_batches_tracked.item<int64_t>(), 1);
}

// Runs the program without a shell, so that no path needs quoting; its exit status.
int run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) return -1;
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(ModuleTest, N29_PythonsTorchReadsAFileWhosePathHasASpaceAndWritesOneThatIsLoaded) {
  const std::string python = GRADWIRE_PYTHON;
  if (python.empty()) GTEST_SKIP() << "configured with a Torch_DIR: which Python has this torch is not known";
  save(parts, path);
  const std::string script =
      "import sys, torch\n"
      "state = torch.load(sys.argv[1], weights_only=True)\n"
      "assert list(state)[0] == 'left.linear.weight', list(state)\n"
      "assert state['right.norm.num_batches_tracked'].item() == 0\n"
      "class Whole(torch.nn.Module):\n"
      "    def __init__(self):\n"
      "        super().__init__()\n"
      "        self.left, self.right = (torch.nn.ModuleDict({'linear': torch.nn.Linear(3, 3), 'norm': "
      "torch.nn.BatchNorm1d(3)}) for _ in range(2))\n"
      "model = Whole()\n"
      "model.load_state_dict(state)\n"
      "with torch.no_grad():\n"
      "    for tensor in model.state_dict().values(): tensor += 1\n"
      "torch.save(dict(model.state_dict()), sys.argv[1])\n";
  const auto before = state(right).get();
  ASSERT_EQ(run({python, "-c", script, path}), 0);
  load(parts, path);
  const auto after = state(right).get();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(after[i].value.equal(before[i].value + 1)) << before[i].name;
}

TEST_F(ModuleTest, AFileOfAnotherModelIsRefusedInWordsAndChangesNothing) {
  save({{"left", left}}, path);
  const auto before = state(right).get();
  EXPECT_THAT(thrown<Error>([&] { load(parts, path); }),
              AllOf(HasSubstr("linear.weight is missing"), HasSubstr("worker2")));
  EXPECT_TRUE(state(right).get()[0].value.equal(before[0].value));
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { load(parts, "/dev/null"); }), HasSubstr("/dev/null"));
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { load(parts, path + ".none"); }), HasSubstr("cannot read"));
  const RemoteModule<Net> wider(cluster[0].peer(1), 5);
  EXPECT_THAT(thrown<Error>([&] { load({{"left", wider}}, path); }), HasSubstr("another shape"));
}

}  // namespace
}  // namespace gradwire::nn
