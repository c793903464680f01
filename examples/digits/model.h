// The parts of the model; each lives in a process of its own, or all in one.
#pragma once

#include <torch/torch.h>

#include "data.h"

namespace digits {

constexpr int columns = 8;
constexpr int width = 64;

// What each shade of each pixel means. A batch touches few of its rows: its gradient is sparse.
struct Table : torch::nn::Module {
  explicit Table(int seed) {
    torch::manual_seed(seed);
    torch::Tensor start = torch::randn({pixels * shades, columns}) * 0.02;
    start.select(1, 0) += torch::arange(shades).div(shades - 1.0).repeat(pixels);  // how dark it is
    weight = register_parameter("weight", start);
  }
  torch::Tensor forward(const torch::Tensor& rows) {
    return torch::embedding(weight, rows, -1, false, true).flatten(1);
  }
  torch::Tensor weight;
};

// The lower half reads the pixels, the upper half names the digit.
struct Half : torch::nn::Module {
  Half(int inputs, int outputs, int seed) {
    torch::manual_seed(seed);
    layer = register_module("layer", torch::nn::Linear(inputs, outputs));
  }
  torch::Tensor forward(const torch::Tensor& x) { return layer->forward(torch::relu(x)); }
  torch::nn::Linear layer{nullptr};
};

}  // namespace digits
