// Calls that overlap: futures, continuations, timeouts, cancellation. Run: gradwire run -n 3 build/examples/async
#include <chrono>
#include <iostream>
#include <thread>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

using namespace std::chrono_literals;

inline constexpr gradwire::Function<torch::Tensor(torch::Tensor, double)> scale{"scale"};
inline constexpr gradwire::Function<int()> patient{"patient"};

int main() {
  gradwire::Registry registry;
  registry.add(scale, [](torch::Tensor x, double by) { return x * by; });
  registry.add(patient, [] {
    int waited = 0;
    while (!gradwire::cancelled()) {  // the caller has cancelled, or does not want to wait any longer
      std::this_thread::sleep_for(1ms);
      ++waited;
    }
    return waited;
  });

  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    torch::Tensor x = torch::ones({3});

    // Both workers at once.
    std::vector<gradwire::Future<torch::Tensor>> futures;
    for (int rank : {1, 2}) futures.push_back(worker->peer(rank).call(scale, x, 10.0 * rank));
    std::vector<torch::Tensor> all = gradwire::when_all(futures).get();
    std::cout << "both: " << all[0].sum().item<double>() << " and " << all[1].sum().item<double>() << '\n';

    // A continuation runs on one of Gradwire's threads; what it returns is a future again.
    gradwire::Future<torch::Tensor> f = worker->peer(1).call(scale, x, 2.0);
    std::cout << "then: " << f.then([](torch::Tensor y) { return y.sum(); }).get().item<double>() << '\n';

    // A limit for this call only.
    try {
      worker->peer(1).with_timeout(50ms).call(patient).get();
    } catch (const gradwire::TimeoutError& error) {
      std::cout << "timeout: " << error.what() << '\n';
    }

    // Cancelling completes the future at once, and reaches the function.
    gradwire::Future<int> waiting = worker->peer(2).call(patient);
    waiting.cancel();
    try {
      waiting.get();
    } catch (const gradwire::CancelledError& error) {
      std::cout << "cancelled: " << error.what() << '\n';
    }
  }
  worker->leave();
}
