#include "gradwire/wire/tensor_parts.h"

#include <algorithm>
#include <limits>
#include <span>

#include <c10/util/safe_numerics.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gradwire::wire {
namespace {

using Parts = decltype(TensorDescription::parts);

using Sizes = std::span<const int64_t>;

// The product of sizes and item size, a size of 0 counting as 1: torch multiplies that way for strides, which must
// not overflow even when there are no elements.
std::optional<uint64_t> extent(Sizes sizes, uint64_t item_size) {
  uint64_t product = item_size;
  for (int64_t size : sizes) {
    if (c10::mul_overflows(product, static_cast<uint64_t>(std::max<int64_t>(size, 1)), &product)) {
      return std::nullopt;
    }
  }
  if (product > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  return product;
}

SizeList joined(Sizes first, std::initializer_list<int64_t> middle, Sizes last) {
  SizeList all(first.begin(), first.end());
  all.append(middle);
  all.append(last.begin(), last.end());
  return all;
}

std::optional<std::string> wrong_in_general(const TensorDescription& description) {
  if (description.foreign_dtype == nullptr && dtype_of(description.dtype) == nullptr) {
    return fmt::format("dtype {} is not one that travels", c10::toString(description.dtype));
  }
  if (description.sizes.size() > max_dimensions) {
    return fmt::format("{} dimensions are more than {}", description.sizes.size(), max_dimensions);
  }
  if (std::ranges::any_of(description.sizes, [](int64_t size) { return size < 0; })) {
    return fmt::format("sizes [{}] are negative", fmt::join(description.sizes, ", "));
  }
  if (!extent(description.sizes, 1)) {
    return fmt::format("sizes [{}] are too large", fmt::join(description.sizes, ", "));
  }
  if (description.requires_grad && description.foreign_dtype == nullptr && !c10::isFloatingType(description.dtype) &&
      !c10::isComplexType(description.dtype)) {
    return fmt::format("{} tensors cannot require grad", c10::toString(description.dtype));
  }
  return std::nullopt;
}

std::optional<std::string> wrong_if_sparse(const TensorDescription& description) {
  auto dimensions = static_cast<int64_t>(description.sizes.size());
  if (description.nnz < 0) {
    return fmt::format("{} stored elements", description.nnz);
  }
  if (description.layout == c10::Layout::Sparse) {
    if (description.sparse_dim < 0 || description.sparse_dim > dimensions) {
      return fmt::format("{} sparse dimensions of {}", description.sparse_dim, dimensions);
    }
    return std::nullopt;
  }
  if (description.index_dtype != c10::ScalarType::Int && description.index_dtype != c10::ScalarType::Long) {
    return fmt::format("indices of dtype {}", c10::toString(description.index_dtype));
  }
  if (description.dense_dim < 0 || dimensions < description.dense_dim + 2) {
    return fmt::format("{} dimensions are too few for a CSR tensor with {} dense ones", dimensions,
                       description.dense_dim);
  }
  if (description.sizes[dimensions - description.dense_dim - 2] == std::numeric_limits<int64_t>::max()) {
    return "too many rows";
  }
  return std::nullopt;
}

Parts parts_without_bytes(const TensorDescription& description) {
  Sizes sizes = description.sizes;
  if (description.layout == c10::Layout::Strided) {
    return {{description.dtype, description.sizes}};
  }
  if (description.layout == c10::Layout::Sparse) {
    return {{c10::ScalarType::Long, {description.sparse_dim, description.nnz}},
            {description.dtype, joined({}, {description.nnz}, sizes.subspan(description.sparse_dim))}};
  }
  size_t row_dimension = sizes.size() - description.dense_dim - 2;
  Sizes batches = sizes.first(row_dimension);
  return {{description.index_dtype, joined(batches, {sizes[row_dimension] + 1}, {})},
          {description.index_dtype, joined(batches, {description.nnz}, {})},
          {description.dtype, joined(batches, {description.nnz}, sizes.last(description.dense_dim))}};
}

// Torch's kernels allocate for each stored element, so a large number of them must have cost as many bytes.
bool has_room_for_each_element(const Parts& parts) {
  const auto& values = parts[parts.size() - 1];
  const auto& indices = parts[parts.size() - 2];
  return values.byte_count > 0 || indices.byte_count > 0;
}

}  // namespace

std::optional<std::string> derive_parts(TensorDescription& description) {
  description.parts.clear();
  if (!description.defined) {
    return std::nullopt;
  }
  if (auto wrong = wrong_in_general(description)) {
    return wrong;
  }
  if (description.layout != c10::Layout::Strided) {
    if (auto wrong = wrong_if_sparse(description)) {
      return wrong;
    }
  }
  description.parts = parts_without_bytes(description);
  for (TensorDescription::Part& part : description.parts) {
    // Only the elements can be of a foreign dtype, never indices.
    const bool is_foreign = part.dtype == c10::ScalarType::Undefined;
    auto bytes = extent(part.sizes, is_foreign ? description.foreign_dtype->item_size : c10::elementSize(part.dtype));
    if (!bytes) {
      return fmt::format("sizes [{}] are too large", fmt::join(part.sizes, ", "));
    }
    bool empty = std::ranges::find(part.sizes, 0) != part.sizes.end();
    part.byte_count = empty ? 0 : *bytes;
  }
  if (description.nnz > 0 && !has_room_for_each_element(description.parts)) {
    return fmt::format("{} stored elements of no size", description.nnz);
  }
  return std::nullopt;
}

}  // namespace gradwire::wire
