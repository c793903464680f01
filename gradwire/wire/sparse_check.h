// Torch's sparse kernels trust indices: one out of range reads or writes outside of the tensor. So indices that come
// from a peer are checked before a tensor is made of them.
#pragma once

#include <ATen/core/Tensor.h>

#include "gradwire/wire/tensor.h"

namespace gradwire::wire {

// Each index is within the size of its dimension, else MalformedError. `indices` is the first part.
void check_coordinates(const TensorDescription& description, const at::Tensor& indices);

// Whether the indices ascend, none twice: only then may a tensor be called coalesced.
[[nodiscard]] bool coordinates_ascend(const at::Tensor& indices);

// In each batch, row starts go from 0 to nnz without falling, columns are within the tensor and ascend in each row,
// else MalformedError.
void check_rows_and_columns(const TensorDescription& description, const at::Tensor& row_starts,
                            const at::Tensor& columns);

}  // namespace gradwire::wire
