// Copies the elements of a view, row by row, in one go. Torch's own copy would do, at the price of its dispatcher (a
// few microseconds, and whatever mode the calling thread has switched on) and of its thread pool.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include <c10/util/SmallVector.h>

#include "gradwire/wire/tensor.h"

namespace gradwire::wire {
namespace {

struct Dimension {
  int64_t size;
  int64_t from;  // strides, in elements
  int64_t to;
};
using Dimensions = c10::SmallVector<Dimension, 8>;

// Elements a side. Larger tiles are slower where strides are powers of two: their lines share a few places in the
// cache.
constexpr int64_t tile = 16;

// Of no alignment: in a frame the destination is wherever the bytes before it end.
template <size_t size>
struct Element {
  std::byte bytes[size];
};

// Dimensions of size 1 left out, neighbours that lie one after the other in the source made one.
Dimensions simplified(at::IntArrayRef sizes, at::IntArrayRef strides) {
  Dimensions dimensions;  // innermost first
  int64_t to = 1;
  for (auto i = static_cast<int64_t>(sizes.size()) - 1; i >= 0; --i) {
    if (sizes[i] == 1) {
      continue;
    }
    if (!dimensions.empty() && strides[i] == dimensions.back().from * dimensions.back().size) {
      dimensions.back().size *= sizes[i];
    } else {
      dimensions.push_back({sizes[i], strides[i], to});
    }
    to *= sizes[i];
  }
  return dimensions;
}

template <size_t size>
void copy_rows(const Element<size>* from, Element<size>* to, const Dimension& column, const Dimension& row) {
  for (int64_t r = 0; r < row.size; ++r) {
    if (column.from == 1) {
      std::memcpy(to + r * row.to, from + r * row.from, column.size * size);
      continue;
    }
    for (int64_t c = 0; c < column.size; ++c) {
      to[r * row.to + c] = from[r * row.from + c * column.from];
    }
  }
}

// Tile by tile: lines of the source are read in the wrong direction, and stay in the cache until all of them is used.
template <size_t size>
void copy_transposed(const Element<size>* from, Element<size>* to, const Dimension& column, const Dimension& row) {
  for (int64_t first_column = 0; first_column < column.size; first_column += tile) {
    int64_t end_column = std::min(first_column + tile, column.size);
    for (int64_t first_row = 0; first_row < row.size; first_row += tile) {
      int64_t end_row = std::min(first_row + tile, row.size);
      for (int64_t r = first_row; r < end_row; ++r) {
        for (int64_t c = first_column; c < end_column; ++c) {
          to[r * row.to + c] = from[r * row.from + c * column.from];
        }
      }
    }
  }
}

// Plane by plane: the plane is that of the innermost dimension of the destination (column) and of the innermost of
// the source (row), so that both are walked in small steps.
template <size_t size>
void copy_strided(const void* source, void* destination, Dimensions dimensions) {
  Dimension column = dimensions.front();
  dimensions.erase(dimensions.begin());
  Dimension row{1, 0, 0};
  if (!dimensions.empty()) {
    auto* closest = std::min_element(dimensions.begin(), dimensions.end(),
                                     [](const Dimension& a, const Dimension& b) { return a.from < b.from; });
    row = *closest;
    dimensions.erase(closest);
  }
  const auto* from = static_cast<const Element<size>*>(source);
  auto* to = static_cast<Element<size>*>(destination);
  c10::SmallVector<int64_t, 8> index(dimensions.size(), 0);
  while (true) {
    if (row.size > 1 && column.from > 1 && row.from < column.from) {
      copy_transposed(from, to, column, row);
    } else {
      copy_rows(from, to, column, row);
    }
    size_t d = 0;
    for (; d < dimensions.size(); ++d) {
      from += dimensions[d].from;
      to += dimensions[d].to;
      if (++index[d] < dimensions[d].size) {
        break;
      }
      from -= dimensions[d].from * dimensions[d].size;
      to -= dimensions[d].to * dimensions[d].size;
      index[d] = 0;
    }
    if (d == dimensions.size()) {
      return;
    }
  }
}

}  // namespace

void copy_part(const at::Tensor& part, void* destination) {
  if (part.numel() == 0) {
    return;
  }
  const void* source = part.const_data_ptr();
  if (part.is_contiguous()) {
    std::memcpy(destination, source, part.nbytes());
    return;
  }
  Dimensions dimensions = simplified(part.sizes(), part.strides());
  switch (part.element_size()) {
    case 1:
      return copy_strided<1>(source, destination, std::move(dimensions));
    case 2:
      return copy_strided<2>(source, destination, std::move(dimensions));
    case 4:
      return copy_strided<4>(source, destination, std::move(dimensions));
    case 8:
      return copy_strided<8>(source, destination, std::move(dimensions));
    case 16:
      return copy_strided<16>(source, destination, std::move(dimensions));
    default:
      TORCH_INTERNAL_ASSERT(false, "no dtype has elements of ", part.element_size(), " bytes");
  }
}

}  // namespace gradwire::wire
