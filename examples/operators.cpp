// Torch's operators on another worker, by name. Run: gradwire run -n 2 build/examples/operators
#include <iostream>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

int main() {
  gradwire::Registry registry;
  registry.allow_operators("aten::*");  // off unless asked for; those that touch files are never matched by a pattern

  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    gradwire::Peer peer = worker->peer("worker1");
    torch::Tensor a = torch::full({2, 2}, 3.0);
    torch::Tensor b = torch::eye(2);
    torch::Tensor sum = peer.op("aten::add.Tensor", a, b, 1).get().toTensor();  // Future<c10::IValue>
    std::cout << "sum:\n" << sum << '\n';
    std::cout << "mean of the product: " << peer.op("aten::mm", a, b).get().toTensor().mean().item<double>() << '\n';
    try {
      peer.op("aten::from_file", "/etc/hostname").get();
    } catch (const gradwire::NotFoundError& error) {
      std::cout << "refused: " << error.what() << '\n';
    }
  }
  worker->leave();
}
