#include <algorithm>

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_sparse_csr_tensor_unsafe.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "gradwire/wire/sparse_check.h"
#include "gradwire/wire/tensor.h"

namespace gradwire::wire {
namespace {

// A byte of 2 in a bool tensor is counted as 2 by some of torch's kernels and as 1 by others, and where one computes
// the size of what another writes, that is a write out of bounds.
void normalise_bools(uint8_t* bytes, uint64_t count) {
  uint8_t seen = 0;
  for (uint64_t i = 0; i < count; ++i) {
    seen |= bytes[i];
  }
  if (seen > 1) {
    std::transform(bytes, bytes + count, bytes, [](uint8_t byte) { return uint8_t{byte != 0}; });
  }
}

at::Tensor dense(const TensorDescription::Part& part, c10::DataPtr memory) {
  if (part.byte_count != 0 && memory.get() == nullptr) {
    throw std::logic_error(fmt::format("a part of {} bytes was given no memory", part.byte_count));
  }
  if (part.dtype == c10::ScalarType::Bool) {
    normalise_bools(static_cast<uint8_t*>(memory.get()), part.byte_count);
  }
  // With an allocator the storage can be resized, like that of any other tensor: torch then moves to memory of its own.
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), part.byte_count,
                                                       std::move(memory), c10::GetCPUAllocator(), /*resizable=*/true);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         c10::scalarTypeToTypeMeta(part.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(part.sizes);
  return tensor;
}

at::TensorOptions options_of(const TensorDescription& description) {
  return at::TensorOptions().dtype(description.dtype).layout(description.layout).device(description.device);
}

at::Tensor sparse(const TensorDescription& description, const at::Tensor& indices, const at::Tensor& values) {
  check_coordinates(description, indices);
  // A claim that does not hold is not taken over; the tensor means the same without it.
  bool coalesced = description.is_coalesced && coordinates_ascend(indices);
  return at::_sparse_coo_tensor_unsafe(indices, values, description.sizes, options_of(description), coalesced);
}

at::Tensor sparse_csr(const TensorDescription& description, const at::Tensor& row_starts, const at::Tensor& columns,
                      const at::Tensor& values) {
  check_rows_and_columns(description, row_starts, columns);
  return at::_sparse_csr_tensor_unsafe(row_starts, columns, values, description.sizes, options_of(description));
}

}  // namespace

at::Tensor assemble(const TensorDescription& description, std::vector<c10::DataPtr> part_memory) {
  if (part_memory.size() != description.parts.size()) {
    throw std::logic_error(
        fmt::format("a tensor of {} parts was given memory for {}", description.parts.size(), part_memory.size()));
  }
  if (!description.defined) {
    return {};
  }
  if (description.foreign_dtype != nullptr) {
    throw MalformedError(
        fmt::format("a tensor of dtype {}, which torch {} does not have: send it as another dtype, or install a torch "
                    "that has this one at each worker",
                    description.foreign_dtype->name, TORCH_VERSION));
  }
  std::vector<at::Tensor> parts;
  parts.reserve(part_memory.size());
  for (size_t i = 0; i < part_memory.size(); ++i) {
    parts.push_back(dense(description.parts[i], std::move(part_memory[i])));
  }
  try {
    switch (description.layout) {
      case c10::Layout::Sparse:
        return sparse(description, parts[0], parts[1]);
      case c10::Layout::SparseCsr:
        return sparse_csr(description, parts[0], parts[1], parts[2]);
      default:
        return std::move(parts[0]);
    }
  } catch (const c10::Error& error) {
    throw MalformedError(fmt::format("malformed sparse tensor: {}", error.what_without_backtrace()));
  }
}

}  // namespace gradwire::wire
