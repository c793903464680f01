// How an operator can be allowed: by a pattern, by its name alone, or not at all.
//
// A pattern says "compute for me", so it reaches operators that give results which depend on their arguments and do
// nothing else. What does more is reached by its exact name, which is the user's own word for it:
//
//   files            aten::from_file, and whatever takes a string named like a file, a path, a folder, an address
//   the process      aten::pin_memory, aten::get_gradients: state that outlives the call
//   uninitialised    aten::empty, aten::new_empty: what was in the callee's memory before, keys and all
//   other storage    aten::set_, aten::resize_: a tensor that gets more memory than it came with, uninitialised too
//   unchecked        aten::*_backward, aten::segment_reduce: they index by what their arguments say, without a look
//   internal         aten::_reshape_alias: names that begin with an underscore; they leave checks to their callers
//   one backend      aten::mkldnn_linear, quantized::*: behind operators that choose and check; packed, opaque tensors
//   unknown          what a newer torch has added to aten: nobody has looked at it (known_operators.h)
//
// A namespace other than torch's own is reached by a pattern that spells it out, "torchvision::*", and by no other:
// what a newer torch adds, or another library brings, is outside "*" and "*::add".
//
// Not at all:
//
//   collectives      c10d::*, symm_mem::*: every member of the process group has to take part, or all hang
//   runtimes         inductor::*, profiler::*, prim::*: the insides of torch's compilers, which trust each other
//   not data         torch's own classes, storages, streams, a free choice of arguments: they do not travel
//   pointers         aten::fbgemm_*: tensors whose bytes are an address in this process
//
// This is no sandbox. Torch's operators are not hardened against arguments made to break them, and a pattern that
// allows two thousand of them trusts the peers with that; it is authentication that keeps others out. But the line
// is drawn where it helps: of 200 calls with random arguments each, one or more ended the process for 8% of the
// unchecked and 6% of the internal operators of torch 2.13, and for 0.3% of those that patterns reach.
#pragma once

#include <string>
#include <string_view>

namespace c10 {
struct FunctionSchema;
}

namespace gradwire {

// From the widest to the narrowest. `by_own_pattern`: by a pattern that spells out the namespace.
enum class Reach { by_pattern, by_own_pattern, by_name, never };

struct OperatorReach {
  Reach reach = Reach::by_pattern;
  std::string_view group;   // a word of the list above; empty for those that a pattern reaches
  std::string_view reason;  // continues "it "
};

OperatorReach reach_of(const c10::FunctionSchema& schema);

// Of the operators of a namespace all together; by_pattern where it depends on the operator.
OperatorReach reach_of_namespace(std::string_view name);

}  // namespace gradwire
