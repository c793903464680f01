// The layout is written down in docs/protocol-values.md; change both.
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "gradwire/wire/tensor.h"
#include "gradwire/wire/tensor_parts.h"

namespace gradwire::wire {
namespace {

enum class TensorKind : uint8_t { undefined = 0, dense = 1, sparse = 2, sparse_csr = 3 };

constexpr uint8_t requires_grad_flag = 1;
constexpr uint8_t coalesced_flag = 2;

TensorKind kind_of(const TensorDescription& description) {
  if (!description.defined) {
    return TensorKind::undefined;
  }
  switch (description.layout) {
    case c10::Layout::Sparse:
      return TensorKind::sparse;
    case c10::Layout::SparseCsr:
      return TensorKind::sparse_csr;
    default:
      return TensorKind::dense;
  }
}

c10::Layout layout_of(TensorKind kind, const ByteReader& reader) {
  switch (kind) {
    case TensorKind::dense:
      return c10::Layout::Strided;
    case TensorKind::sparse:
      return c10::Layout::Sparse;
    case TensorKind::sparse_csr:
      return c10::Layout::SparseCsr;
    default:
      reader.fail(fmt::format("a tensor of unknown kind {}", static_cast<int>(kind)));
  }
}

void decode_flags(ByteReader& reader, TensorDescription& description) {
  auto flags = reader.take<uint8_t>();
  bool sparse = description.layout == c10::Layout::Sparse;
  if ((flags & ~(requires_grad_flag | (sparse ? coalesced_flag : 0))) != 0) {
    reader.fail(fmt::format("unknown tensor flags {:#x}", flags));
  }
  description.requires_grad = (flags & requires_grad_flag) != 0;
  description.is_coalesced = (flags & coalesced_flag) != 0;
}

void decode_dtype(ByteReader& reader, TensorDescription& description) {
  const auto number = reader.take<uint8_t>();
  const Dtype* dtype = dtype_with_number(number);
  if (dtype == nullptr) {
    reader.fail(fmt::format("a tensor description: dtype {} is not one that travels", number));
  }
  description.dtype = in_this_torch(*dtype);
  if (description.dtype == c10::ScalarType::Undefined) {
    description.foreign_dtype = dtype;
  }
}

c10::ScalarType decode_index_dtype(ByteReader& reader) {
  const auto number = reader.take<uint8_t>();
  for (c10::ScalarType dtype : {c10::ScalarType::Int, c10::ScalarType::Long}) {
    if (dtype_of(dtype)->number == number) {
      return dtype;
    }
  }
  reader.fail(fmt::format("a tensor description: indices of dtype {}", number));
}

// The description came from `flatten` or `decode_description`, so it has a dtype that travels.
uint8_t number_of(const TensorDescription& description) {
  const Dtype* dtype = description.foreign_dtype != nullptr ? description.foreign_dtype : dtype_of(description.dtype);
  TORCH_INTERNAL_ASSERT(dtype != nullptr, "a description has a dtype that does not travel");
  return dtype->number;
}

void expect_cpu(ByteReader& reader) {
  auto type = reader.take<int8_t>();
  auto index = reader.take<int8_t>();
  if (type != static_cast<int8_t>(c10::DeviceType::CPU) || index != -1) {
    reader.fail(fmt::format("a tensor on device {}:{}, where only the CPU is known", type, index));
  }
}

}  // namespace

void encode(ByteWriter& writer, const TensorDescription& description) {
  writer.put(kind_of(description));
  if (!description.defined) {
    return;
  }
  writer.put(number_of(description));
  writer.put(static_cast<uint8_t>((description.requires_grad ? requires_grad_flag : 0) |
                                  (description.is_coalesced ? coalesced_flag : 0)));
  writer.put(static_cast<int8_t>(description.device.type()));
  writer.put(static_cast<int8_t>(description.device.index()));
  writer.put(static_cast<uint8_t>(description.sizes.size()));
  for (int64_t size : description.sizes) {
    writer.put(size);
  }
  if (description.layout == c10::Layout::Sparse) {
    writer.put(static_cast<uint8_t>(description.sparse_dim));
    writer.put(description.nnz);
  } else if (description.layout == c10::Layout::SparseCsr) {
    writer.put(static_cast<uint8_t>(description.dense_dim));
    writer.put(description.nnz);
    writer.put(dtype_of(description.index_dtype)->number);
  }
}

TensorDescription decode_description(ByteReader& reader) {
  TensorDescription description;
  auto kind = reader.take<TensorKind>();
  if (kind == TensorKind::undefined) {
    return description;
  }
  description.defined = true;
  description.layout = layout_of(kind, reader);
  decode_dtype(reader, description);
  decode_flags(reader, description);
  expect_cpu(reader);
  auto dimensions = reader.take<uint8_t>();
  ByteReader sizes(reader.take_bytes(dimensions * sizeof(int64_t)));
  description.sizes.reserve(dimensions);
  for (int i = 0; i < dimensions; ++i) {
    description.sizes.push_back(sizes.take<int64_t>());
  }
  if (kind == TensorKind::sparse) {
    description.sparse_dim = reader.take<uint8_t>();
    description.dense_dim = dimensions - description.sparse_dim;
    description.nnz = reader.take<int64_t>();
  } else if (kind == TensorKind::sparse_csr) {
    description.sparse_dim = 2;
    description.dense_dim = reader.take<uint8_t>();
    description.nnz = reader.take<int64_t>();
    description.index_dtype = decode_index_dtype(reader);
  }
  if (auto wrong = derive_parts(description)) {
    reader.fail("a tensor description: " + *wrong);
  }
  return description;
}

}  // namespace gradwire::wire
