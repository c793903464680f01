#include "data.h"

#include <fstream>
#include <numeric>
#include <random>
#include <stdexcept>

namespace digits {
namespace {

// Not std::shuffle, which differs between standard libraries.
torch::Tensor shuffled(int64_t count, unsigned seed) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(seed);
  for (int64_t i = count - 1; i > 0; --i) std::swap(order[i], order[random() % (i + 1)]);
  return torch::tensor(order);
}

}  // namespace

Data read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path + ": run it from the project's folder, or give --data");
  std::vector<int64_t> rows, labels;
  int64_t value = 0;
  for (int64_t i = 0; file >> value; ++i) {
    const int64_t pixel = i % (pixels + 1);
    if (pixel == pixels)
      labels.push_back(value);
    else
      rows.push_back(pixel * shades + value);
    file.ignore();  // the comma
  }
  const auto count = static_cast<int64_t>(labels.size());
  if (count == 0 || static_cast<int64_t>(rows.size()) != count * pixels)
    throw std::runtime_error(path + " is not a table of 64 pixels and a label in each row");
  const torch::Tensor order = shuffled(count, 1);
  const torch::Tensor all = torch::tensor(rows).reshape({count, pixels}).index_select(0, order);
  const torch::Tensor all_labels = torch::tensor(labels).index_select(0, order);
  const int64_t tested = count / 5;
  return {.training = {all.slice(0, tested), all_labels.slice(0, tested)},
          .test = {all.slice(0, 0, tested), all_labels.slice(0, 0, tested)}};
}

std::vector<Images> batches(const Images& images, int size, int epoch) {
  std::vector<Images> batches;
  for (const torch::Tensor& chosen : shuffled(images.labels.size(0), 100 + epoch).split(size))
    batches.push_back({images.rows.index_select(0, chosen), images.labels.index_select(0, chosen)});
  return batches;
}

}  // namespace digits
