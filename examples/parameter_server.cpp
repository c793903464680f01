// A parameter server: one worker has the parameters, the others train them with data of their own.
// Run: gradwire run -n 4 build/examples/parameter_server
#include <iomanip>
#include <iostream>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

namespace {

constexpr double rate = 0.05;

// No lock: its calls run one at a time.
class Parameters {
 public:
  // A copy: a result is read after the method has returned.
  torch::Tensor pull() const { return weights_.clone(); }
  void push(torch::Tensor gradient) { weights_ -= rate * gradient; }

 private:
  torch::Tensor weights_ = torch::zeros({2});
};

struct Data {
  explicit Data(uint64_t seed) {
    torch::manual_seed(seed);
    x = torch::randn({64, 2});
    y = x.matmul(torch::tensor({2.0F, -3.0F}));
  }
  torch::Tensor loss(const torch::Tensor& weights) const { return torch::mse_loss(x.matmul(weights), y); }
  torch::Tensor x, y;
};

inline constexpr gradwire::Function<int(gradwire::RRef<Parameters>, int)> train{"train"};

}  // namespace

int main() {
  gradwire::Registry registry;
  registry.add_type<Parameters>("Parameters")
      .method("pull", &Parameters::pull)
      .method("push", &Parameters::push)
      .serialised();
  // At a trainer: its own data, and a reference to the parameters of another.
  registry.add(train, [](const gradwire::RRef<Parameters>& parameters, int steps) {
    const Data data(gradwire::Worker::current().rank());
    for (int step = 0; step < steps; ++step) {
      torch::Tensor weights = parameters.call(&Parameters::pull).get().requires_grad_();
      data.loss(weights).backward();
      parameters.call(&Parameters::push, weights.grad()).get();
    }
    return steps;
  });

  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    gradwire::RRef<Parameters> parameters = worker->share(Parameters());
    std::vector<gradwire::Future<int>> trainers;
    for (const gradwire::Peer& peer : worker->peers())
      if (peer.rank() != 0) trainers.push_back(peer.call(train, parameters, 200));
    int steps = 0;
    for (int done : gradwire::when_all(trainers).get()) steps += done;

    torch::Tensor weights = parameters.local()->pull();
    std::cout << std::fixed << std::setprecision(1);
    std::cout << trainers.size() << " trainers, " << steps << " steps\n";
    std::cout << "weights: " << weights[0].item<double>() << ' ' << weights[1].item<double>() << '\n';
    std::cout << std::setprecision(4) << "loss: " << Data(0).loss(weights).item<double>() << '\n';
  }
  worker->leave();
}
