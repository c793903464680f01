// TorchScript modules and functions, called by name: what stands behind registry.add_script("model", module) and
// peer.script("model", "forward", x).
//
//   Scripts scripts;
//   scripts.add("model", torch::jit::load("model.pt"));
//   c10::IValue out = scripts.call("model", "forward", {x});
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

namespace torch::jit {
struct CompilationUnit;
struct Module;
}  // namespace torch::jit

namespace gradwire {

// A value: a copy may be given more scripts without the original noticing. The modules themselves are shared with the
// copies and with whoever added them: what a method changes in its module is seen by all.
//
// Any thread may call, several at once and the same method too: torch's interpreter runs each with a state of its own.
// What the methods share is the module: one that assigns to an attribute, or changes a tensor in place, races with the
// others, as it would in a program with threads. add() must not run meanwhile.
class Scripts {
 public:
  // Every method of the module can be called. A name that was added before means the new one from then on.
  void add(const std::string& name, const torch::jit::Module& module);
  // Every function of the unit: what torch::jit::compile gives.
  void add(const std::string& name, std::shared_ptr<torch::jit::CompilationUnit> functions);

  // Runs it on this thread. Arguments are fitted to the schema as those of operators are (see operators.h). Throws
  // NotFoundError with what there is, InvalidArgumentError with the schema; what the script throws passes as it is.
  c10::IValue call(const std::string& name, const std::string& method, const std::vector<c10::IValue>& arguments) const;

  // The same in two steps, for those who have to tell what is refused here from what the script throws: what this gives
  // runs it, once, and keeps the script alive.
  [[nodiscard]] std::function<c10::IValue()> prepare(const std::string& name, const std::string& method,
                                                     const std::vector<c10::IValue>& arguments) const;

 private:
  struct Script;
  const std::shared_ptr<const Script>& find(const std::string& name) const;

  std::map<std::string, std::shared_ptr<const Script>> scripts_;
};

}  // namespace gradwire
