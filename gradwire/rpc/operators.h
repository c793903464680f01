// Torch's operators, called by name: what stands behind registry.allow_operators("aten::*") and peer.op(...).
//
//   Operators operators;
//   operators.allow("aten::*");
//   c10::IValue sum = operators.call("aten::add.Tensor", {a, b, 1});
//
// Nothing is allowed unless asked for, and a pattern never matches what touches files, the process, or memory that is
// not the caller's: operator_reach.h says which operators those are, and why.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

namespace c10 {
class OperatorHandle;
}

namespace gradwire {

class OperatorNames;

// A value: a copy may be changed without the original noticing. Any thread may call; allow() must not run meanwhile.
class Operators {
 public:
  Operators();

  // Allows "aten::add.Tensor" (one overload), "aten::add" (all of them), or what a pattern matches, in which * stands
  // for any characters: "mylib::*", "aten::linalg_*", "*". A name without * is the user's own word: it allows what no
  // pattern matches too, such as "aten::from_file". Throws InvalidArgumentError for what could never be called, and for
  // a pattern that reaches no operator: "torchvis*::*", because only a namespace that is spelt out reaches outside
  // aten.
  void allow(const std::string& pattern);

  // Runs it on this thread and gives its result: several as a tuple, none as None.
  //
  // "aten::add.Tensor" names an overload, "aten::std.default" the one that has no name. "aten::add" chooses among the
  // allowed ones that take the arguments: one that takes them as they are before one that has to convert; then one that
  // is not given what is meant as a keyword; then the one without a name; then the one with the fewest arguments. If
  // that leaves several, none is run, and the error names them: "aten::std" with dimensions is such a case.
  //
  // Arguments are given in the order of the schema, keywords too; those missing at the end take their defaults. Where
  // the schema wants it, an int becomes a float, a string a device, a tuple or a list of another kind the list, and a
  // number the list of a fixed size (int[2]).
  //
  // Throws NotFoundError for what is not allowed or does not exist, InvalidArgumentError for arguments that do not fit;
  // what the operator throws passes as it is.
  c10::IValue call(const std::string& name, const std::vector<c10::IValue>& arguments) const;

  // The same in two steps, for those who have to tell what is refused here from what the operator throws: what this
  // gives runs it, once, and needs nothing of this object.
  [[nodiscard]] std::function<c10::IValue()> prepare(const std::string& name,
                                                     const std::vector<c10::IValue>& arguments) const;

 private:
  bool allows(const c10::OperatorHandle& operation) const;
  [[noreturn]] void refuse(const std::string& name, const std::vector<c10::OperatorHandle>& found) const;

  std::vector<std::string> patterns_;     // with a *
  std::vector<std::string> exact_names_;  // without
  std::shared_ptr<OperatorNames> names_;  // of this process; the same for all copies
};

}  // namespace gradwire
