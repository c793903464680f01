#include "gradwire/wire/sparse_check.h"

#include <algorithm>

#include <fmt/format.h>

namespace gradwire::wire {
namespace {

template <class Index>
void check_batch(const Index* starts, const Index* columns, int64_t row_count, int64_t column_count, int64_t nnz) {
  if (starts[0] != 0 || starts[row_count] != nnz) {
    throw MalformedError(fmt::format("malformed CSR tensor: row starts go from {} to {}, not from 0 to {}", starts[0],
                                     starts[row_count], nnz));
  }
  for (int64_t row = 0; row < row_count; ++row) {
    int64_t begin = starts[row];
    int64_t end = starts[row + 1];
    // With the first start 0, none falling and none past nnz, every access below is inside.
    if (end < begin || end > nnz) {
      throw MalformedError(fmt::format("malformed CSR tensor: row {} goes from {} to {} of {}", row, begin, end, nnz));
    }
    int64_t previous = -1;
    for (int64_t i = begin; i < end; ++i) {
      int64_t column = columns[i];
      if (column <= previous || column >= column_count) {
        throw MalformedError(fmt::format("malformed CSR tensor: column {} after {} in row {} of {} columns", column,
                                         previous, row, column_count));
      }
      previous = column;
    }
  }
}

template <class Index>
void check_batches(const TensorDescription& description, const at::Tensor& row_starts, const at::Tensor& columns) {
  size_t row_dimension = description.sizes.size() - description.dense_dim - 2;
  int64_t row_count = description.sizes[row_dimension];
  int64_t column_count = description.sizes[row_dimension + 1];
  int64_t batch_count = row_starts.numel() / (row_count + 1);
  const auto* starts = row_starts.const_data_ptr<Index>();
  const auto* column = columns.const_data_ptr<Index>();
  for (int64_t batch = 0; batch < batch_count; ++batch) {
    check_batch(starts + batch * (row_count + 1), column + batch * description.nnz, row_count, column_count,
                description.nnz);
  }
}

}  // namespace

void check_coordinates(const TensorDescription& description, const at::Tensor& indices) {
  const auto* index = indices.const_data_ptr<int64_t>();
  for (int64_t dimension = 0; dimension < description.sparse_dim; ++dimension) {
    auto size = static_cast<uint64_t>(description.sizes[dimension]);
    const auto* end = index + description.nnz;
    const auto* outside =
        std::find_if(index, end, [size](int64_t value) { return static_cast<uint64_t>(value) >= size; });
    if (outside != end) {
      throw MalformedError(
          fmt::format("malformed sparse tensor: index {} in dimension {} of size {}", *outside, dimension, size));
    }
    index = end;
  }
}

bool coordinates_ascend(const at::Tensor& indices) {
  int64_t dimensions = indices.size(0);
  int64_t nnz = indices.size(1);
  const auto* index = indices.const_data_ptr<int64_t>();
  for (int64_t i = 1; i < nnz; ++i) {
    bool greater = false;
    for (int64_t dimension = 0; dimension < dimensions && !greater; ++dimension) {
      int64_t before = index[dimension * nnz + i - 1];
      int64_t now = index[dimension * nnz + i];
      if (now < before) {
        return false;
      }
      greater = now > before;
    }
    if (!greater) {
      return false;
    }
  }
  return true;
}

void check_rows_and_columns(const TensorDescription& description, const at::Tensor& row_starts,
                            const at::Tensor& columns) {
  if (description.index_dtype == c10::ScalarType::Int) {
    check_batches<int32_t>(description, row_starts, columns);
  } else {
    check_batches<int64_t>(description, row_starts, columns);
  }
}

}  // namespace gradwire::wire
