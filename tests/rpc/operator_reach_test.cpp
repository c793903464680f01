// Every operator that is registered in this process is looked at: which of them does a pattern reach?
//
// What a newer torch adds is outside every pattern and fails no test. The last test prints how much of it there is:
// look at what it does, then add it to gradwire/rpc/known_operators.cpp, or to a list in operator_reach.cpp.
#include "gradwire/rpc/operator_reach.h"

#include <iostream>
#include <map>
#include <regex>
#include <set>

#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/library.h>

#include "gradwire/base/error.h"
#include "gradwire/rpc/operator_names.h"
#include "gradwire/rpc/operators.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

std::vector<c10::OperatorHandle> registered() {
  std::vector<c10::OperatorHandle> all;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (auto one = c10::Dispatcher::singleton().findSchema(name)) {
      all.push_back(*one);
    }
  }
  return all;
}

// Asked from outside, as a peer would: with a hundred arguments, an allowed operator is refused for those alone.
bool is_allowed(const Operators& operators, const std::string& name) {
  try {
    operators.call(name, std::vector<c10::IValue>(100));
  } catch (const InvalidArgumentError&) {
    return true;
  } catch (const NotFoundError&) {
    return false;
  }
  ADD_FAILURE() << name << " ran";
  return true;
}

std::vector<c10::OperatorHandle> matched_by(const std::string& pattern) {
  Operators operators;
  operators.allow(pattern);
  std::vector<c10::OperatorHandle> matched;
  for (const c10::OperatorHandle& operation : registered()) {
    if (is_allowed(operators, full_name(operation.operator_name()))) {
      matched.push_back(operation);
    }
  }
  return matched;
}

// Not what the implementation asks, on purpose: wider, and about the type as text.
bool takes_a_string_named_like(const c10::FunctionSchema& schema, const std::regex& name) {
  return std::ranges::any_of(schema.arguments(), [&](const c10::Argument& argument) {
    return argument.type()->str().find("str") != std::string::npos && std::regex_search(argument.name(), name);
  });
}

const std::regex file_like("file|path|dir|folder|url|uri|host|port|command|cmd|lib|save|load|store", std::regex::icase);

TEST(OperatorReach, OfPatternsEndsBeforeFiles) {
  for (const char* pattern : {"*", "aten::*"}) {
    for (const c10::OperatorHandle& operation : matched_by(pattern)) {
      EXPECT_FALSE(takes_a_string_named_like(operation.schema(), file_like)) << operation.schema();
    }
  }
}

TEST(OperatorReach, IsThatOfFilesForOperatorsThatTakeAFile) {
  std::set<std::string> of_files;
  for (const c10::OperatorHandle& operation : registered()) {
    if (reach_of(operation.schema()).group == "files") {
      of_files.insert(full_name(operation.operator_name()));
    }
  }
  EXPECT_THAT(of_files, IsSupersetOf({"aten::from_file.default", "gradwire_test::read.default"}));
}

// A string is how a caller would name something outside: each kind that a pattern reaches has been looked at.
TEST(OperatorReach, OfPatternsCoversKnownKindsOfStringsOnly) {
  const std::set<std::string> known = {
      "UPLO", "approximate", "driver", "equation", "indexing", "interpolation", "mode", "norm", "ord", "p", "pad_mode",
      "padding", "side", "padding_side", "rounding_mode", "reduce",
      // The names of dimensions, in torch 2.11:
      "dim", "dim0", "dim1", "dim2", "dims", "start_dim", "end_dim", "out_dim", "outdim", "names", "order"};
  for (const c10::OperatorHandle& operation : matched_by("aten::*")) {
    for (const c10::Argument& argument : operation.schema().arguments()) {
      if (argument.type()->str().find("str") != std::string::npos) {
        EXPECT_TRUE(known.contains(argument.name())) << "new: " << operation.schema();
      }
    }
  }
}

// What a newer torch adds is such a namespace too, so no list of all namespaces is needed here.
TEST(OperatorReach, OfPatternsIsWithinAten) {
  for (const char* pattern : {"*", "*::*", "*::t*"}) {
    for (const c10::OperatorHandle& operation : matched_by(pattern)) {
      EXPECT_THAT(operation.operator_name().name, StartsWith("aten::")) << pattern;
    }
  }
}

TEST(OperatorReach, OfAPatternThatSpellsOutANamespaceIsWithinIt) {
  const std::vector<c10::OperatorHandle> matched = matched_by("gradwire_test::t*");
  EXPECT_FALSE(matched.empty());
  for (const c10::OperatorHandle& operation : matched) {
    EXPECT_THAT(operation.operator_name().name, StartsWith("gradwire_test::t"));
  }
}

// An operator as a newer torch might add it to aten. The arguments are looked at when it is called, never before.
class AddedToAten {
 public:
  explicit AddedToAten(const std::string& schema) { library_.def(torch::schema(schema.c_str())); }

 private:
  torch::Library library_{torch::Library::FRAGMENT, "aten", std::nullopt, __FILE__, __LINE__};
};

TEST(OperatorReach, OfPatternsEndsBeforeWhatANewerTorchAdds) {
  const std::string name = "aten::gradwire_new_operator";
  const AddedToAten added(name + "(Tensor x) -> Tensor");
  Operators operators;
  for (const char* pattern : {"*", "aten::*", "aten::g*"}) {
    operators.allow(pattern);
    EXPECT_FALSE(is_allowed(operators, name)) << pattern;
  }
  EXPECT_THROW(operators.allow("aten::gradwire_*"), InvalidArgumentError);
  EXPECT_THAT([&] { operators.call(name, {}); }, ThrowsMessage<NotFoundError>(HasSubstr(name)));
  operators.allow(name);
  EXPECT_TRUE(is_allowed(operators, name));
}

TEST(OperatorReach, OfPatternsEndsBeforeNewOverloadsThatTakeAStringOfAnUnknownKind) {
  const AddedToAten added("aten::relu.gradwire_new(Tensor x, str whereabouts) -> Tensor");
  const AddedToAten harmless("aten::relu.gradwire_harmless(Tensor x, str mode) -> Tensor");
  Operators operators;
  operators.allow("aten::*");
  EXPECT_FALSE(is_allowed(operators, "aten::relu.gradwire_new"));
  EXPECT_TRUE(is_allowed(operators, "aten::relu.gradwire_harmless"));
  EXPECT_TRUE(is_allowed(operators, "aten::relu"));
}

TEST(OperatorReach, OfPatternsLeavesOutAFixedList) {
  Operators operators;
  operators.allow("*");
  operators.allow("aten::*");
  operators.allow("aten::_*");
  for (const char* name : {"aten::from_file",
                           "aten::save",
                           "aten::load",
                           "aten::_print",
                           "aten::pin_memory",
                           "aten::_pin_memory",
                           "aten::get_gradients",
                           "aten::_backward",
                           "aten::record_stream",
                           "aten::_cufft_clear_plan_cache",
                           "aten::_cufft_set_plan_cache_max_size",
                           "aten::_assert_async",
                           "aten::manual_seed",
                           "aten::set_grad_enabled",
                           "aten::empty",
                           "aten::empty_like",
                           "aten::empty_strided",
                           "aten::empty_permuted",
                           "aten::empty_quantized",
                           "aten::new_empty",
                           "aten::new_empty_strided",
                           "aten::_empty_affine_quantized",
                           "aten::set_",
                           "aten::set",
                           "aten::set_data",
                           "aten::resize_",
                           "aten::resize_as_",
                           "aten::_resize_output_",
                           "aten::sparse_resize_",
                           "aten::sparse_resize_and_clear_",
                           "aten::_reshape_alias",
                           "aten::_index_put_impl_",
                           "aten::_unsafe_view",
                           "aten::_sparse_coo_tensor_unsafe",
                           "aten::_coalesced_",
                           "aten::_make_dep_token",
                           "aten::segment_reduce",
                           "aten::max_pool2d_with_indices_backward",
                           "aten::fbgemm_pack_gemm_matrix_fp16",
                           "aten::fbgemm_linear_fp16_weight",
                           "aten::cudnn_convolution",
                           "aten::mkldnn_rnn_layer",
                           "aten::quantized_lstm",
                           "quantized::linear_unpack",
                           "inductor::_reinterpret_tensor",
                           "inductor::_alloc_from_pool",
                           "mkldnn::data_ptr",
                           "profiler::_record_function_enter",
                           "c10d::send",
                           "_c10d_functional::all_reduce",
                           "symm_mem::memset32_",
                           "prim::rpc_sync",
                           "prim::PythonOp",
                           "static_runtime::create_owned_ref"}) {
    EXPECT_FALSE(is_allowed(operators, name)) << name;
  }
}

TEST(OperatorReach, OfANameIsWiderThanThatOfPatterns) {
  Operators operators;
  for (const char* name : {"aten::from_file", "aten::empty.memory_format", "aten::_reshape_alias", "aten::set_",
                           "aten::embedding_dense_backward", "mkldnn::_linear_pointwise", "aten::pin_memory"}) {
    EXPECT_FALSE(is_allowed(operators, name)) << name;
    operators.allow(name);
    EXPECT_TRUE(is_allowed(operators, name)) << name;
  }
  EXPECT_FALSE(is_allowed(operators, "aten::set_.source_Storage"));
  EXPECT_FALSE(is_allowed(operators, "aten::empty.out"));
}

TEST(OperatorReach, EndsBeforeWhatCouldNeverBeCalled) {
  Operators operators;
  for (const char* name :
       {"c10d::send", "_c10d_functional::all_reduce", "symm_mem::memset32_", "profiler::_record_function_enter",
        "inductor::_reinterpret_tensor", "prim::rpc_sync", "static_runtime::dict_unpack", "aten::record_stream",
        "aten::set_.source_Storage", "aten::fbgemm_pack_gemm_matrix_fp16", "quantized::linear_prepack"}) {
    EXPECT_THROW(operators.allow(name), InvalidArgumentError) << name;
    EXPECT_FALSE(is_allowed(operators, name)) << name;
  }
  for (const char* pattern : {"c10d::*", "prim::*", "quantized::*", "_quantized::*", "inductor::_*"}) {
    EXPECT_THROW(operators.allow(pattern), InvalidArgumentError) << pattern;
  }
}

TEST(OperatorReach, IsExplainedByTheError) {
  Operators operators;
  operators.allow("aten::*");
  EXPECT_THAT([&] { operators.call("aten::from_file", {"/etc/passwd"}); },
              ThrowsMessage<NotFoundError>(HasSubstr("it takes the name of a file: it has to be allowed by its name")));
  EXPECT_THAT([&] { operators.call("c10d::send", {}); },
              ThrowsMessage<NotFoundError>(HasSubstr("cannot be, since it is a collective")));
  EXPECT_THAT([&] { operators.allow("quantized::*"); },
              ThrowsMessage<InvalidArgumentError>(HasSubstr("only name by name: it belongs to one backend")));
}

// TorchScript's interpreter has operators of its own (aten::save, prim::rpc_sync, aten::wait): only scripts run them.
TEST(OperatorReach, EndsBeforeWhatOnlyTorchScriptHas) {
  int only_in_script = 0;
  for (const auto& operation : torch::jit::getAllOperators()) {
    const c10::OperatorName& name = operation->schema().operator_name();
    if (operation->isC10Op() || c10::Dispatcher::singleton().findSchema(name)) {
      continue;
    }
    ++only_in_script;
    Operators operators;
    operators.allow("*");
    try {
      operators.allow(full_name(name));
    } catch (const InvalidArgumentError&) {
      continue;
    }
    EXPECT_FALSE(is_allowed(operators, full_name(name))) << name;
  }
  EXPECT_GT(only_in_script, 0);
  RecordProperty("only_in_script", only_in_script);
  std::cout << only_in_script << " operators exist in TorchScript only\n";
}

TEST(OperatorReach, LeavesMostOfAtenToPatterns) {
  std::map<std::string, int> counts;
  for (const c10::OperatorHandle& operation : registered()) {
    OperatorReach reach = reach_of(operation.schema());
    EXPECT_EQ(reach.group.empty(), reach.reach == Reach::by_pattern) << operation.schema();
    ++counts[reach.reach == Reach::by_pattern ? "reached by patterns" : std::string(reach.group)];
  }
  for (const auto& [group, count] : counts) {
    std::cout << count << " " << group << "\n";
  }
  for (const c10::OperatorHandle& operation : registered()) {
    if (reach_of(operation.schema()).group == "unknown") {
      std::cout << "unknown: " << operation.schema() << "\n";
    }
  }
  EXPECT_EQ(static_cast<int>(matched_by("*").size()), counts["reached by patterns"]);
  EXPECT_GT(counts["reached by patterns"], 1500);
}

}  // namespace
}  // namespace gradwire
