// A TorchScript module that lives on another worker. Run: gradwire run -n 2 build/examples/torchscript [model.pt]
#include <iostream>

#include <torch/script.h>
#include <torch/torch.h>

#include "gradwire/gradwire.h"

namespace {

// What torch.jit.script(...).save("model.pt") would have written.
torch::jit::Module make_model() {
  torch::jit::Module model("Scale");
  model.register_parameter("weight", torch::full({3}, 2.0), false);
  model.define("def forward(self, x):\n  return x * self.weight\n");
  model.define("def shifted(self, x, by: float = 1.0):\n  return self.forward(x) + by\n");
  return model;
}

}  // namespace

int main(int argc, char** argv) {
  gradwire::Registry registry;
  registry.add_script("model", argc > 1 ? torch::jit::load(argv[1]) : make_model());

  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    gradwire::Peer peer = worker->peer("worker1");
    torch::Tensor x = torch::ones({3});
    torch::Tensor out = peer.script("model", "forward", x).get().toTensor();
    std::cout << "forward: " << out.sum().item<double>() << '\n';
    std::cout << "shifted: " << peer.script("model", "shifted", x).get().toTensor().sum().item<double>() << '\n';
    try {
      peer.script("model", "backward", x).get();
    } catch (const gradwire::NotFoundError& error) {
      std::cout << "refused: " << error.what() << '\n';
    }
  }
  worker->leave();
}
