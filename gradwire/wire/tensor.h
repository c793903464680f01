// A tensor on the wire: a description, and the memory of its parts.
//
//   FlatTensor flat = flatten(tensor);                        // sender
//   encode(writer, flat.description);
//   for (size_t i = 0; i < flat.parts.size(); ++i) copy_part(flat.parts[i], room for description.parts[i].byte_count);
//
//   TensorDescription description = decode_description(reader);   // receiver
//   at::Tensor tensor = assemble(description, std::move(part_memory));
//
// A dense tensor has one part; a sparse one has one per component (indices and values; row and column indices and
// values); an undefined one has none. A part travels row by row and holds the elements of the tensor alone, whatever
// storage it is a view of. So strides, memory formats and sharing of storage are not kept.
//
// All functions here may be called on any thread.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

#include "gradwire/wire/bytes.h"
#include "gradwire/wire/dtype.h"

namespace gradwire::wire {

// As many as torch's own kernels take.
inline constexpr size_t max_dimensions = 64;

// Without memory of its own for what is usual.
using SizeList = c10::SmallVector<int64_t, 5>;

struct TensorDescription {
  // Dense memory that is moved as a whole.
  struct Part {
    c10::ScalarType dtype = c10::ScalarType::Float;
    SizeList sizes;
    uint64_t byte_count = 0;
    bool operator==(const Part&) const = default;
  };

  bool defined = false;
  c10::ScalarType dtype = c10::ScalarType::Float;
  const Dtype* foreign_dtype = nullptr;  // one that the torch of this process does not have: `dtype` is Undefined then
  c10::Layout layout = c10::Layout::Strided;  // or Sparse (coordinates), or SparseCsr
  c10::Device device{c10::DeviceType::CPU};
  bool requires_grad = false;
  SizeList sizes;

  // Sparse layouts only. Sparse: the first sparse_dim dimensions are indexed. SparseCsr: the last dense_dim are not,
  // the two before them are, and those before are batches.
  int64_t sparse_dim = 0;
  int64_t dense_dim = 0;
  int64_t nnz = 0;            // per batch
  bool is_coalesced = false;  // Sparse
  c10::ScalarType index_dtype = c10::ScalarType::Long;

  // Follows from the above and is not sent. Sparse: indices, values. SparseCsr: row starts, columns, values.
  c10::SmallVector<Part, 1> parts;

  bool operator==(const TensorDescription&) const = default;
};

struct FlatTensor {
  TensorDescription description;
  // One for each part of the description: dense, on the CPU, detached, maybe a view with strides; conjugation and
  // negation are carried out. They share the tensor's memory: what is done to it before copy_part shows.
  c10::SmallVector<at::Tensor, 1> parts;
};

// Throws InvalidArgumentError, in words, for a tensor that cannot travel: not on the CPU, quantized, nested, a wrapper.
[[nodiscard]] FlatTensor flatten(const at::Tensor& tensor);

// Writes the elements of `part`, row by row, to `destination`, which has room for the part's byte_count bytes. One
// copy whatever the strides.
void copy_part(const at::Tensor& part, void* destination);

void encode(ByteWriter& writer, const TensorDescription& description);

// Throws MalformedError. Byte counts are consistent, but may be far larger than what can be allocated: the caller
// compares them with its limit.
[[nodiscard]] TensorDescription decode_description(ByteReader& reader);

// A tensor over the memory given, one for each part, without a copy. Each holds byte_count bytes, aligned for the
// part's dtype, and may be null if that is 0. The tensor does not require grad; the description tells whether the
// sender's did.
//
// Nothing that is in the memory can make torch reach outside of it: indices of sparse tensors are checked
// (MalformedError), and bytes of bool tensors other than 0 and 1, which torch's kernels count in different ways, are
// set to 1. A tensor of a dtype that the torch of this process does not have is refused (MalformedError, which names
// the dtype). A sender that can still write to the memory could undo this: indices and bools are safe from a hostile
// sender only in memory that is not shared with it.
[[nodiscard]] at::Tensor assemble(const TensorDescription& description, std::vector<c10::DataPtr> part_memory);

}  // namespace gradwire::wire
