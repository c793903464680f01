// The model of examples/pipeline.cpp, one step of its training over two workers, and the same step in one process.
// bench/pipeline_rows.cpp measures both.
#pragma once

#include <vector>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

namespace pipeline {

constexpr int pieces = 8, features = 64;

struct Stage : torch::nn::Module {
  Stage(int inputs, int hidden, int outputs, int seed) {
    torch::manual_seed(seed);
    wide = register_module("wide", torch::nn::Linear(inputs, hidden));
    narrow = register_module("narrow", torch::nn::Linear(hidden, outputs));
  }
  torch::Tensor forward(const torch::Tensor& x) { return narrow->forward(torch::gelu(wide->forward(x))); }
  torch::nn::Linear wide{nullptr}, narrow{nullptr};
};

inline void register_stage(gradwire::Registry& registry) {
  registry.add_type<Stage>("Stage").constructor<int, int, int, int>().method("forward", &Stage::forward);
}

inline torch::Tensor input(int step, int rows) {
  torch::manual_seed(100 + step);
  return torch::randn({rows, features});
}
inline torch::Tensor wanted(const torch::Tensor& x) { return x.sum(1, true).sin(); }

// The first stage lives at one worker and the second at another.
class TwoWorkers {
 public:
  TwoWorkers(gradwire::Worker& worker, const gradwire::Peer& one, const gradwire::Peer& other, int hidden)
      : worker_(worker), first_(one, features, hidden, features, 1), second_(other, features, hidden, 1, 2) {}

  double step(const torch::Tensor& x, bool overlapped) {
    gradwire::autograd::Context context(worker_);
    // While the second stage has one piece, the first has the next. What is given to `then` runs under the context.
    std::vector<gradwire::Future<torch::Tensor>> out;
    for (const torch::Tensor& piece : x.chunk(pieces)) {
      out.push_back(first_.forward_async(piece).then(
          [&](const torch::Tensor& between) { return second_.forward_async(between); }));
      if (!overlapped) out.back().wait();
    }
    const torch::Tensor loss = torch::mse_loss(torch::cat(gradwire::when_all(out).get()), wanted(x));
    context.backward(loss);
    optimizer_.step(context);
    return loss.item<double>();
  }

 private:
  gradwire::Worker& worker_;
  const gradwire::nn::RemoteModule<Stage> first_, second_;
  gradwire::optim::DistributedOptimizer<torch::optim::SGD> optimizer_{gradwire::nn::parameters({first_, second_}).get(),
                                                                      torch::optim::SGDOptions(0.05)};
};

class OneProcess {
 public:
  explicit OneProcess(int hidden) : first_(features, hidden, features, 1), second_(features, hidden, 1, 2) {}

  double step(const torch::Tensor& x) {
    const torch::Tensor loss = torch::mse_loss(second_.forward(first_.forward(x)), wanted(x));
    optimizer_.zero_grad();
    loss.backward();
    optimizer_.step();
    return loss.item<double>();
  }

 private:
  std::vector<torch::Tensor> parameters() const {
    std::vector<torch::Tensor> all = first_.parameters();
    for (const torch::Tensor& parameter : second_.parameters()) all.push_back(parameter);
    return all;
  }

  Stage first_, second_;
  torch::optim::SGD optimizer_{parameters(), torch::optim::SGDOptions(0.05)};
};

}  // namespace pipeline
