// A parameter server with asynchronous trainers: the model lives at the server, and the trainers step it whenever they
// are ready, without waiting for each other.
// Run: gradwire run -n 4 build/examples/asynchronous_trainers
#include <iostream>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

namespace {

struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(1);
    hidden = register_module("hidden", torch::nn::Linear(2, 32));
    out = register_module("out", torch::nn::Linear(32, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) { return out->forward(torch::tanh(hidden->forward(x))); }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
};

// Points, and which of two spirals they are on.
struct Spirals {
  Spirals(int count, uint64_t seed) {
    torch::manual_seed(seed);
    label = torch::randint(2, {count});
    const torch::Tensor distance = torch::rand({count}) * 0.9 + 0.1;
    const torch::Tensor angle = distance * 5 + label * M_PI;
    point = torch::stack({distance * angle.cos(), distance * angle.sin()}, 1);
  }
  torch::Tensor point, label;
};

inline constexpr gradwire::Function<int(gradwire::RRef<Net>, int)> train{"train"};

}  // namespace

int main() {
  torch::set_num_threads(1);  // several processes share the machine
  gradwire::Registry registry;
  registry.add_type<Net>("Net").constructor<>().method("forward", &Net::forward);
  // At a trainer, with data of its own.
  registry.add(train, [](const gradwire::RRef<Net>& net, int steps) {
    gradwire::Worker& worker = gradwire::Worker::current();
    // Hogwild: another trainer's step between this one's forward and backward pass is no error.
    gradwire::optim::DistributedOptimizer<torch::optim::Adam> optimizer(
        gradwire::nn::parameters(net).get(), torch::optim::AdamOptions(0.01), {.hogwild = true});
    for (int step = 0; step < steps; ++step) {
      const Spirals batch(64, 1000 * worker.rank() + step);
      gradwire::autograd::Context context(worker);
      context.backward(torch::cross_entropy_loss(net.call(&Net::forward, batch.point).get(), batch.label));
      optimizer.step(context, {.max_norm = 5.0});
    }
    return steps;
  });

  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    auto net = worker->share(std::make_shared<Net>());
    const Spirals test(1000, 7);
    const auto accuracy = [&] {
      const torch::NoGradGuard guard;
      return net.local()->forward(test.point).argmax(1).eq(test.label).to(torch::kDouble).mean().item<double>();
    };
    std::cout << "untrained: " << (accuracy() < 0.9 ? "cannot tell" : "can tell") << '\n';
    std::vector<gradwire::Future<int>> trainers;
    for (const gradwire::Peer& peer : worker->peers())
      if (peer.rank() != 0) trainers.push_back(peer.with_timeout(std::chrono::minutes(2)).call(train, net, 300));
    int steps = 0;
    for (int done : gradwire::when_all(trainers).get()) steps += done;
    std::cout << trainers.size() << " trainers, " << steps << " steps\n"
              << "accuracy: " << (accuracy() >= 0.97 ? "97% or more" : "too low") << '\n';
  }
  worker->leave();
}
