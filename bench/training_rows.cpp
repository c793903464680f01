// Rows of training: steps of an optimizer over several owners, and a parameter server with several trainers.
#include <ATen/Functions.h>

#include "gradwire/gradwire.h"

#include "processes.h"
#include "row.h"

namespace gradwire::bench {
namespace {

struct Layer : torch::nn::Module {
  Layer(int inputs, int outputs)
      : weight(register_parameter("weight", at::ones({outputs, inputs}))),
        bias(register_parameter("bias", at::zeros({outputs}))) {}
  at::Tensor forward(const at::Tensor& x) { return at::linear(x, weight, bias); }
  at::Tensor weight, bias;
};

constexpr Function<void(RRef<Layer>, int)> train{"train"};
constexpr int inputs = 64, outputs = 10, batch = 32;

// What bench/torch_rpc/training.py does with torch's own.
void train_on(const RRef<Layer>& layer, int steps) {
  Worker& worker = Worker::current();
  optim::DistributedOptimizer<torch::optim::SGD> optimizer(nn::parameters(layer).get(), torch::optim::SGDOptions(1e-4),
                                                           {.hogwild = true});
  const at::Tensor x = at::ones({batch, inputs});
  for (int step = 0; step < steps; ++step) {
    autograd::Context context(worker);
    context.backward(layer.call(&Layer::forward, x).get().sum());
    optimizer.step(context);
  }
}

Registry make_registry() {
  Registry registry;
  registry.add_type<Layer>("Layer").constructor<int, int>().method("forward", &Layer::forward);
  registry.add(train, train_on);
  return registry;
}

using Group = GroupOfProcesses<make_registry>;

double step(int owners) {
  const Group group(owners);
  std::vector<RRef<Layer>> layers;
  for (int rank = 1; rank <= owners; ++rank) layers.push_back(group.worker->peer(rank).make<Layer>(outputs, outputs));
  optim::DistributedOptimizer<torch::optim::SGD> optimizer(nn::parameters({layers.begin(), layers.end()}).get(),
                                                           torch::optim::SGDOptions(1e-4));
  autograd::Context context(*group.worker);
  at::Tensor x = at::ones({1, outputs});
  for (const RRef<Layer>& layer : layers) x = layer.call(&Layer::forward, x).get();
  context.backward(x.sum());
  return 1e6 * median_seconds(500, [&] { optimizer.step(context); });
}

double parameter_server() {
  constexpr int trainers = 3, steps = 500;
  const Group group(trainers);
  const RRef<Layer> layer = group.worker->share(std::make_shared<Layer>(inputs, outputs));
  const auto run = [&](int count) {
    std::vector<Future<void>> all;
    for (int rank = 1; rank <= trainers; ++rank) all.push_back(group.worker->peer(rank).call(train, layer, count));
    when_all(all).get();
  };
  run(20);
  return trainers * steps / seconds_of([&] { run(steps); });
}

}  // namespace

std::vector<Row> training_rows() {
  std::vector<Row> rows;
  for (int owners : {1, 4, 16})
    rows.push_back({"optimizer.step." + std::to_string(owners), "us", [=] { return step(owners); }});
  rows.push_back({"example.parameter_server", "per_second", parameter_server});
  return rows;
}

}  // namespace gradwire::bench
