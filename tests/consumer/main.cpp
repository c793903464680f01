// Encodes a tensor, decodes it, and says so: enough to need headers, library and libtorch.
#include <gradwire/gradwire.h>

#include <iostream>

#include <ATen/ops/ones.h>

int main() {
  const auto [tensor, number] =
      gradwire::wire::decode_all<at::Tensor, int>(gradwire::wire::encode(at::ones({2, 3}), 7));
  std::cout << "consumer: " << tensor.numel() + number << std::endl;
  return tensor.numel() + number == 13 ? 0 : 1;
}
