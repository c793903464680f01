// A pipeline of two stages: a batch goes through it in pieces, so that both stages work at the same time.
// Run: gradwire run -n 3 build/examples/pipeline
#include <chrono>
#include <iomanip>
#include <iostream>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

#include "pipeline_model.h"

namespace {

constexpr int hidden = 512, rows = 256, steps = 30;

// The losses of a few steps, and how long a step took.
struct Run {
  std::vector<double> losses;
  double milliseconds = 0;
};

Run timed(const std::function<double(const torch::Tensor&)>& step) {
  Run run;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) run.losses.push_back(step(pipeline::input(i, rows)));
  run.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count() / steps;
  return run;
}

}  // namespace

int main() {
  torch::set_num_threads(1);  // several processes share the machine
  gradwire::Registry registry;
  pipeline::register_stage(registry);
  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    const auto split = [&](bool overlapped) {
      pipeline::TwoWorkers model(*worker, worker->peer(1), worker->peer(2), hidden);
      return timed([&](const torch::Tensor& x) { return model.step(x, overlapped); });
    };
    const Run one_by_one = split(false), overlapped = split(true);

    pipeline::OneProcess model(hidden);
    const Run whole = timed([&](const torch::Tensor& x) { return model.step(x); });

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
