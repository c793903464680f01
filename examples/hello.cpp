// One call: rank 0 asks worker1 to scale a tensor. Run it with two processes: see README.md.
#include <iostream>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

// A function's name and signature, shared by caller and callee; the body may be anywhere.
inline constexpr gradwire::Function<torch::Tensor(torch::Tensor, double)> scale{"scale"};

int main() {
  gradwire::Registry registry;  // only what is registered can be called
  registry.add(scale, [](torch::Tensor x, double by) { return x * by; });

  auto worker = gradwire::Worker::join(registry);  // RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
  if (worker->rank() == 0) {
    gradwire::Peer peer = worker->peer("worker1");                    // or worker->peer(1)
    torch::Tensor y = peer.call(scale, torch::ones({3}), 2.0).get();  // arguments checked at compile time
    std::cout << y << '\n';
  }
  worker->leave();  // serves until everyone is ready to leave
}
