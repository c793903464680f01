// A model split over two workers and trained by a third: gradients cross between them.
// Run: gradwire run -n 3 build/examples/split_model
#include <iomanip>
#include <iostream>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

namespace {

// A part of the model, with its parameters.
class Part {
 public:
  Part(int inputs, int outputs, int seed) {
    torch::manual_seed(seed);
    layer_ = torch::nn::Linear(inputs, outputs);
  }
  torch::Tensor forward(torch::Tensor x) { return torch::tanh(layer_->forward(x)); }
  // With the gradients of the context that the call was made under: `.grad` is not used.
  void step(double rate) {
    const auto context = gradwire::autograd::Context::current();
    const torch::NoGradGuard guard;
    for (torch::Tensor& parameter : layer_->parameters()) parameter -= rate * context.gradient(parameter);
  }

 private:
  torch::nn::Linear layer_{nullptr};
};

}  // namespace

int main() {
  gradwire::Registry registry;
  registry.add_type<Part>("Part")
      .constructor<int, int, int>()
      .method("forward", &Part::forward)
      .method("step", &Part::step);

  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    auto encoder = worker->peer("worker1").make<Part>(2, 8, 1);
    auto decoder = worker->peer("worker2").make<Part>(8, 1, 2);
    // Whether two numbers have the same sign.
    const torch::Tensor x = torch::tensor({{1.0F, 1.0F}, {1.0F, -1.0F}, {-1.0F, 1.0F}, {-1.0F, -1.0F}});
    const torch::Tensor y = torch::tensor({{1.0F}, {-1.0F}, {-1.0F}, {1.0F}});

    std::cout << std::fixed << std::setprecision(3);
    torch::Tensor loss;
    for (int step = 0; step <= 200; ++step) {
      gradwire::autograd::Context context(*worker);  // current for this thread until destroyed
      torch::Tensor hidden = encoder.call(&Part::forward, x).get();
      loss = torch::mse_loss(decoder.call(&Part::forward, hidden).get(), y);
      context.backward(loss);
      gradwire::when_all(std::vector{encoder.call(&Part::step, 0.5), decoder.call(&Part::step, 0.5)}).get();
      if (step % 100 == 0) std::cout << "step " << step << ": loss " << loss.item<double>() << '\n';
    }
    std::cout << (loss.item<double>() < 0.05 ? "learned" : "not learned") << '\n';

    // A gradient of a gradient, over the same workers.
    gradwire::autograd::Context context(*worker);
    torch::Tensor input = x.clone().requires_grad_();
    torch::Tensor output = decoder.call(&Part::forward, encoder.call(&Part::forward, input).get()).get();
    context.backward(output.sum(), {.create_graph = true});
    context.backward(context.gradient(input).square().sum());
    std::cout << "second order: " << (context.gradient(input).defined() ? "there" : "missing") << '\n';
  }
  worker->leave();
}
