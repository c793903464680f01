// A pipeline of two stages: a batch goes through it in pieces, so that both stages work at the same time.
// Run: gradwire run -n 3 build/examples/pipeline
#include <chrono>
#include <iomanip>
#include <iostream>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

namespace {

constexpr int pieces = 8;

struct Stage : torch::nn::Module {
  Stage(int inputs, int outputs, int seed) {
    torch::manual_seed(seed);
    wide = register_module("wide", torch::nn::Linear(inputs, 512));
    narrow = register_module("narrow", torch::nn::Linear(512, outputs));
  }
  torch::Tensor forward(const torch::Tensor& x) { return narrow->forward(torch::gelu(wide->forward(x))); }
  torch::nn::Linear wide{nullptr}, narrow{nullptr};
};

using Optimizer = gradwire::optim::DistributedOptimizer<torch::optim::SGD>;

torch::Tensor input(int step) {
  torch::manual_seed(100 + step);
  return torch::randn({256, 64});
}
torch::Tensor wanted(const torch::Tensor& x) { return x.sum(1, true).sin(); }

// The losses of a few steps, and how long a step took.
struct Run {
  std::vector<double> losses;
  double milliseconds = 0;
};

Run timed(int steps, const std::function<double(int)>& step) {
  Run run;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) run.losses.push_back(step(i));
  run.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count() / steps;
  return run;
}

}  // namespace

int main() {
  torch::set_num_threads(1);  // several processes share the machine
  gradwire::Registry registry;
  registry.add_type<Stage>("Stage").constructor<int, int, int>().method("forward", &Stage::forward);
  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    const auto split = [&](bool overlapped) {
      const gradwire::nn::RemoteModule<Stage> first(worker->peer(1), 64, 64, 1), second(worker->peer(2), 64, 1, 2);
      Optimizer optimizer(gradwire::nn::parameters({first, second}).get(), torch::optim::SGDOptions(0.05));
      return timed(30, [&, overlapped](int step) {
        const torch::Tensor x = input(step);
        gradwire::autograd::Context context(*worker);
        // While the second stage has one piece, the first has the next. What is given to `then` runs under the context.
        std::vector<gradwire::Future<torch::Tensor>> out;
        for (const torch::Tensor& piece : x.chunk(pieces)) {
          out.push_back(first.forward_async(piece).then(
              [&](const torch::Tensor& between) { return second.forward_async(between); }));
          if (!overlapped) out.back().wait();
        }
        const torch::Tensor loss = torch::mse_loss(torch::cat(gradwire::when_all(out).get()), wanted(x));
        context.backward(loss);
        optimizer.step(context);
        return loss.item<double>();
      });
    };
    const Run one_by_one = split(false), overlapped = split(true);

    Stage first(64, 64, 1), second(64, 1, 2);
    std::vector<torch::Tensor> parameters = first.parameters();
    for (const torch::Tensor& parameter : second.parameters()) parameters.push_back(parameter);
    torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.05));
    const Run whole = timed(30, [&](int step) {
      const torch::Tensor x = input(step);
      const torch::Tensor loss = torch::mse_loss(second.forward(first.forward(x)), wanted(x));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      return loss.item<double>();
    });

    double difference = 0;
    for (size_t i = 0; i < whole.losses.size(); ++i)
      for (const Run* run : {&one_by_one, &overlapped})
        difference = std::max(difference, std::abs(run->losses[i] - whole.losses[i]));
    std::cout << std::fixed << std::setprecision(1) << "a step in one process: " << whole.milliseconds << " ms\n"
              << "over two stages, piece by piece: " << one_by_one.milliseconds << " ms\n"
              << "over two stages, overlapped: " << overlapped.milliseconds << " ms\n"
              << "the losses " << (difference < 1e-4 ? "are the same" : "differ") << '\n';
  }
  worker->leave();
}
