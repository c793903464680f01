// Functions that wait for others without holding a thread. Run: gradwire run -n 3 build/examples/coroutines
#include <iostream>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

inline constexpr gradwire::Function<torch::Tensor(torch::Tensor, double)> scale{"scale"};
inline constexpr gradwire::Function<torch::Tensor(std::string, torch::Tensor)> through{"through"};

// A coroutine of the program's own: it may be started from anywhere, or awaited by another.
gradwire::Task<double> sum_of_both(gradwire::Worker& worker, torch::Tensor x) {
  torch::NoGradGuard no_grad;  // guards live across a co_await, whatever thread it goes on with
  auto first = worker.peer(1).call(through, "worker2", x);
  auto second = worker.peer(2).call(through, "worker1", x);
  torch::Tensor a = co_await first;
  torch::Tensor b = co_await second;
  co_return (a + b).sum().item<double>();
}

int main() {
  gradwire::Registry registry;
  registry.add(scale, [](torch::Tensor x, double by) { return x * by; });
  // A function that returns a Task (or a Future) holds no thread while it waits.
  registry.add(through, [](std::string next, torch::Tensor x) -> gradwire::Task<torch::Tensor> {
    co_return co_await gradwire::Worker::current().peer(next).call(scale, x, 2.0);
  });

  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    std::cout << "through two workers each: " << sum_of_both(*worker, torch::ones({3})).start().get() << '\n';
    std::vector<gradwire::Future<torch::Tensor>> many;
    for (int i = 0; i < 1000; ++i) many.push_back(worker->peer(1).call(through, "worker2", torch::full({1}, i)));
    double sum = 0;
    for (const torch::Tensor& y : gradwire::when_all(many).get()) sum += y.item<double>();
    std::cout << "a thousand at once: " << sum << '\n';
  }
  worker->leave();
}
