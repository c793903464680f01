#include <ATen/ops/zeros.h>
#include <c10/core/DispatchKeySet.h>
#include <fmt/format.h>

#include "gradwire/base/error.h"
#include "gradwire/wire/tensor.h"
#include "gradwire/wire/tensor_parts.h"

namespace gradwire::wire {
namespace {

// What a tensor of plain memory may be marked with. Anything else (a functorch level, a Python subclass that
// intercepts operators, names) means that its memory is not the whole truth.
constexpr c10::DispatchKeySet plain_keys =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Dense, c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr,
                         c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor,
                         c10::DispatchKey::BackendSelect});

[[noreturn]] void refuse(const std::string& what, const std::string& instead) {
  throw InvalidArgumentError(fmt::format("{} cannot be sent: {}", what, instead));
}

void check_that_it_travels(const at::Tensor& tensor) {
  if (tensor.is_meta()) {
    refuse("a meta tensor", "it has no elements; send its sizes instead");
  }
  if (!tensor.is_cpu()) {
    refuse(fmt::format("a tensor on {}", tensor.device().str()), "move it to the CPU first: tensor.cpu()");
  }
  if (tensor.is_quantized()) {
    refuse("a quantized tensor", "send tensor.int_repr() with its scale, or tensor.dequantize()");
  }
  if (tensor.is_nested()) {
    refuse("a nested tensor", "send its components, tensor.unbind(), or tensor.to_padded_tensor()");
  }
  if (tensor.is_mkldnn()) {
    refuse("an mkldnn tensor", "make it dense first: tensor.to_dense()");
  }
  auto unknown = (tensor.key_set() - plain_keys) &
                 c10::DispatchKeySet(c10::DispatchKeySet::RAW, ~static_cast<uint64_t>(c10::full_backend_mask));
  if (!unknown.empty()) {
    refuse(fmt::format("a tensor that wraps another one (marked {})", c10::toString(unknown.highestPriorityTypeId())),
           "send the tensor inside");
  }
}

at::Tensor without_graph(const at::Tensor& tensor) {
  return tensor.requires_grad() ? at::Tensor(tensor.tensor_data()) : tensor;
}

// The elements as they are meant: conjugation, negation and "all zero" are only marks on a tensor until carried out.
at::Tensor resolved(const at::Tensor& tensor) {
  if (tensor._is_zerotensor()) {
    return at::zeros(tensor.sizes(), tensor.options());
  }
  return tensor.resolve_conj().resolve_neg();
}

c10::SmallVector<at::Tensor, 1> components(const at::Tensor& tensor, TensorDescription& description) {
  switch (tensor.layout()) {
    case c10::Layout::Strided:
      return {resolved(tensor)};
    case c10::Layout::Sparse:
      description.sparse_dim = tensor.sparse_dim();
      description.dense_dim = tensor.dense_dim();
      description.nnz = tensor._nnz();
      description.is_coalesced = tensor.is_coalesced();
      return {tensor._indices(), resolved(tensor._values())};
    case c10::Layout::SparseCsr: {
      at::Tensor row_starts = tensor.crow_indices();
      description.sparse_dim = 2;
      description.dense_dim = tensor.dim() - 2 - (row_starts.dim() - 1);
      description.nnz = tensor._nnz();
      description.index_dtype = row_starts.scalar_type();
      return {row_starts, tensor.col_indices(), resolved(tensor.values())};
    }
    default:
      refuse("a tensor of this sparse layout", "convert it first: tensor.to_sparse() or tensor.to_sparse_csr()");
  }
}

}  // namespace

FlatTensor flatten(const at::Tensor& tensor) {
  FlatTensor flat;
  TensorDescription& description = flat.description;
  if (!tensor.defined()) {
    return flat;
  }
  check_that_it_travels(tensor);
  description.defined = true;
  description.dtype = tensor.scalar_type();
  description.layout = tensor.layout();
  description.requires_grad = tensor.requires_grad();
  description.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  flat.parts = components(without_graph(tensor), description);
  if (auto wrong = derive_parts(description)) {
    refuse("this tensor", *wrong);
  }
  for (size_t i = 0; i < flat.parts.size(); ++i) {
    if (flat.parts[i].sizes() != at::IntArrayRef(description.parts[i].sizes)) {
      refuse("this sparse tensor", "the sizes of its components do not belong together");
    }
  }
  return flat;
}

}  // namespace gradwire::wire
