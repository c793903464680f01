// The handwritten digits, cut into what is trained on and what is tested with.
#pragma once

#include <string>

#include <torch/torch.h>

namespace digits {

constexpr int pixels = 64;
constexpr int shades = 17;

// A row of the table for each pixel and shade: an image is 64 row numbers.
struct Images {
  torch::Tensor rows;    // int64, images x 64
  torch::Tensor labels;  // int64
};

struct Data {
  Images training;
  Images test;
};

// One in five is for the test. The order is shuffled once, the same on every machine.
Data read(const std::string& path);

// The images of one epoch in an order of its own, in batches.
std::vector<Images> batches(const Images& images, int size, int epoch);

}  // namespace digits
