#include "gradwire/rpc/operator_reach.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include "gradwire/rpc/known_operators.h"

namespace gradwire {
namespace {

constexpr OperatorReach files{Reach::by_name, "files", "takes the name of a file"};
constexpr OperatorReach process{Reach::by_name, "the process", "reads or changes the state of the process"};
constexpr OperatorReach uninitialised{Reach::by_name, "uninitialised",
                                      "gives uninitialised memory, which holds what was in it before"};
constexpr OperatorReach other_storage{Reach::by_name, "other storage",
                                      "gives a tensor other memory than it came with, uninitialised in part"};
constexpr OperatorReach unchecked{Reach::by_name, "unchecked", "does not check the indices that its arguments hold"};
constexpr OperatorReach internal{Reach::by_name, "internal",
                                 "is internal, as the underscore says, and leaves checks to its callers"};
constexpr OperatorReach one_backend{Reach::by_name, "one backend",
                                    "belongs to one backend, behind an operator that chooses and checks"};
constexpr OperatorReach unknown{Reach::by_name, "unknown",
                                "is newer than this version of Gradwire, which does not know what it does"};
constexpr OperatorReach other_namespace{
    Reach::by_own_pattern, "other namespaces",
    "is in a namespace that is not torch's, or newer than this version of Gradwire"};
constexpr OperatorReach collectives{Reach::never, "collectives",
                                    "is a collective, in which all members of a process group have to take part"};
constexpr OperatorReach runtimes{Reach::never, "runtimes", "is a part of torch's compilers and runtimes"};
constexpr OperatorReach not_data{Reach::never, "not data", "takes or gives what cannot be sent"};
constexpr OperatorReach pointers{Reach::never, "pointers", "keeps addresses of this process in tensors"};

template <size_t size>
using Words = std::array<std::string_view, size>;

constexpr Words collective_namespaces = std::to_array<std::string_view>(
    {"c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "fsdp", "symm_mem"});
constexpr Words runtime_namespaces = std::to_array<std::string_view>(
    {"_inductor_debug", "_inductor_test", "_test", "debug_mode_ops", "debugprims", "export", "higher_order", "inductor",
     "inductor_prims", "onnx", "prim", "prims", "profiler", "rngprims", "static_runtime", "streams", "_native_aot",
     "coor", "flex_gemm"});
constexpr Words backend_namespaces =
    std::to_array<std::string_view>({"_native", "_quantized", "mkl", "mkldnn", "mkldnn_prepacked", "onednn",
                                     "quantization", "quantized", "sparse", "xnnpack", "prepacked", "metal", "vulkan"});

// Some of these exist in TorchScript only, today.
constexpr Words names_about_the_process =
    std::to_array<std::string_view>({"Generator", "backward", "dist_backward", "get_gradients", "initial_seed", "load",
                                     "manual_seed", "pin_memory", "save", "seed", "set_grad_enabled", "wait", "warn"});
constexpr Words names_of_uninitialised = std::to_array<std::string_view>(
    {"empty", "empty_like", "empty_permuted", "empty_quantized", "empty_strided", "new_empty", "new_empty_strided"});
constexpr Words names_of_other_storage = std::to_array<std::string_view>(
    {"resize", "resize_", "resize_as", "resize_as_", "resize_as_sparse", "resize_as_sparse_", "set", "set_", "set_data",
     "sparse_resize", "sparse_resize_", "sparse_resize_and_clear", "sparse_resize_and_clear_", "shallow_copy_data_"});
constexpr Words backend_prefixes =
    std::to_array<std::string_view>({"cudnn_", "miopen_", "mkldnn_", "mps_", "quantized_"});

// A string is how a caller would name something outside. These do not: a mode, a norm, a side; in torch 2.11, a
// dimension.
constexpr Words names_of_harmless_strings = std::to_array<std::string_view>(
    {"UPLO", "approximate", "driver",  "equation",     "indexing", "interpolation", "mode",    "norm",   "ord",
     "p",    "pad_mode",    "padding", "padding_side", "reduce",   "rounding_mode", "side",    "dim",    "dim0",
     "dim1", "dim2",        "dims",    "end_dim",      "names",    "order",         "out_dim", "outdim", "start_dim"});

// Parts of names, as they are in "filename", "file_path", "cache_dir".
constexpr Words parts_of_file_names = std::to_array<std::string_view>(
    {"file", "path", "folder", "directory", "url", "uri", "address", "command", "library"});

bool is_one_of(std::string_view word, const auto& words) { return std::ranges::find(words, word) != words.end(); }

bool is_named_like_a_file(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return name == "dir" || name.ends_with("_dir") || name.starts_with("dir_") || name == "cmd" ||
         std::ranges::any_of(parts_of_file_names,
                             [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

bool holds_strings(const c10::Type& type) {
  return type.kind() == c10::TypeKind::StringType || type.kind() == c10::TypeKind::AnyType ||
         std::ranges::any_of(type.containedTypes(), [](const c10::TypePtr& inner) { return holds_strings(*inner); });
}

bool takes_an_unknown_string(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.arguments(), [](const c10::Argument& argument) {
    return holds_strings(*argument.type()) && !is_one_of(argument.name(), names_of_harmless_strings);
  });
}

bool takes_a_file(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.arguments(), [](const c10::Argument& argument) {
    return holds_strings(*argument.type()) && is_named_like_a_file(argument.name());
  });
}

bool is_data(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::AnyType:
    case c10::TypeKind::NoneType:
    case c10::TypeKind::TensorType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::SymBoolType:
    case c10::TypeKind::SymFloatType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::DeviceObjType:
      return true;
    case c10::TypeKind::ListType:
    case c10::TypeKind::DictType:
    case c10::TypeKind::TupleType:
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::UnionType:
      return std::ranges::all_of(type.containedTypes(), [](const c10::TypePtr& inner) { return is_data(*inner); });
    default:
      return false;
  }
}

// An argument that may be None can be left out: "Generator? generator=None".
bool can_be_sent(const c10::Argument& argument) {
  return is_data(*argument.type()) || argument.type()->kind() == c10::TypeKind::OptionalType;
}

bool takes_and_gives_data(const c10::FunctionSchema& schema) {
  return !schema.is_vararg() && !schema.is_varret() && std::ranges::all_of(schema.arguments(), can_be_sent) &&
         std::ranges::all_of(schema.returns(), [](const c10::Argument& result) { return is_data(*result.type()); });
}

bool can_skip_checks(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.arguments(), [](const c10::Argument& argument) {
    return argument.name() == "unsafe" && argument.type()->kind() == c10::TypeKind::BoolType;
  });
}

// "_foo", but not "__and__".
bool is_internal(std::string_view name) { return name.starts_with('_') && !name.starts_with("__"); }

OperatorReach reach_in_aten(std::string_view name, const c10::FunctionSchema& schema) {
  if (name.starts_with("fbgemm_")) {
    return pointers;
  }
  if (is_one_of(name, names_about_the_process)) {
    return process;
  }
  if (is_one_of(name, names_of_uninitialised)) {
    return uninitialised;
  }
  if (is_one_of(name, names_of_other_storage)) {
    return other_storage;
  }
  if (name.find("_backward") != std::string_view::npos) {
    return unchecked;
  }
  if (std::ranges::any_of(backend_prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); })) {
    return one_backend;
  }
  return is_known_operator(name) && !takes_an_unknown_string(schema) ? OperatorReach{} : unknown;
}

}  // namespace

OperatorReach reach_of_namespace(std::string_view name) {
  if (is_one_of(name, collective_namespaces)) {
    return collectives;
  }
  if (is_one_of(name, runtime_namespaces)) {
    return runtimes;
  }
  if (is_one_of(name, backend_namespaces)) {
    return one_backend;
  }
  if (is_internal(name)) {
    return internal;
  }
  return name == "aten" ? OperatorReach{} : other_namespace;
}

OperatorReach reach_of(const c10::FunctionSchema& schema) {
  std::string_view full = schema.name();
  size_t colons = full.find("::");
  std::string_view space = full.substr(0, colons);
  std::string_view name = colons == std::string_view::npos ? full : full.substr(colons + 2);
  OperatorReach of_namespace = reach_of_namespace(space);
  if (of_namespace.reach == Reach::never) {
    return of_namespace;
  }
  if (!takes_and_gives_data(schema)) {
    return not_data;
  }
  OperatorReach in_aten = space == "aten" ? reach_in_aten(name, schema) : OperatorReach{};
  if (in_aten.reach == Reach::never) {
    return in_aten;
  }
  if (takes_a_file(schema)) {
    return files;
  }
  if (is_internal(name)) {
    return internal;
  }
  if (of_namespace.reach == Reach::by_name) {
    return of_namespace;
  }
  if (can_skip_checks(schema)) {
    return unchecked;
  }
  return space == "aten" ? in_aten : of_namespace;
}

}  // namespace gradwire
