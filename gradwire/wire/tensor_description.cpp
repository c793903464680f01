// The layout is written down in docs/protocol-values.md; change both.
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
  writer.put(static_cast<uint8_t>(description.dtype));
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
    writer.put(static_cast<uint8_t>(description.index_dtype));
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
  description.dtype = static_cast<c10::ScalarType>(reader.take<uint8_t>());
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
    description.index_dtype = static_cast<c10::ScalarType>(reader.take<uint8_t>());
  }
  if (auto wrong = derive_parts(description)) {
    reader.fail("a tensor description: " + *wrong);
  }
  return description;
}

}  // namespace gradwire::wire
