#include "gradwire/rpc/scripts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include "gradwire/base/error.h"
#include "gradwire/rpc/schema_arguments.h"

namespace gradwire {
namespace {

bool calls_torchs_rpc(const torch::jit::Block& block) {
  for (const torch::jit::Node* node : block.nodes()) {
    const std::string kind = node->kind().toQualString();
    if (kind == "aten::to_here" || kind == "aten::local_value" || kind.starts_with("prim::rpc_")) return true;
    for (const torch::jit::Block* inner : node->blocks())
      if (calls_torchs_rpc(*inner)) return true;
  }
  return false;
}

// These act on torch's own references and agent, and crash on any other.
void refuse_torchs_rpc(const std::string& name, torch::jit::Function& function) {
  const torch::jit::GraphFunction* script = torch::jit::tryToGraphFunction(function);
  if (script == nullptr) return;
  const std::shared_ptr<torch::jit::Graph> graph = script->graph()->copy();
  torch::jit::Inline(*graph);
  if (calls_torchs_rpc(*graph->block()))
    throw InvalidArgumentError(fmt::format(
        "the script \"{}\" cannot be registered: its \"{}\" uses to_here, local_value or rpc of torch's own "
        "RPC. A script may take, keep and return references; fetch their values outside of it",
        name, function.name()));
}

}  // namespace

// Constant after construction.
struct Scripts::Script {
  std::shared_ptr<torch::jit::CompilationUnit> functions;  // alive as long as they are
  std::map<std::string, torch::jit::Function*> methods;
  c10::IValue self;  // the module, for a module's methods

  std::string list() const {
    std::vector<std::string> texts;
    for (const auto& [name, function] : methods) {
      texts.push_back(text_of(function->getSchema()));
    }
    return fmt::format("{}", fmt::join(texts, "; "));
  }
};

void Scripts::add(const std::string& name, const torch::jit::Module& module) {
  Script script{.functions = module._ivalue()->compilation_unit(), .methods = {}, .self = module._ivalue()};
  for (const torch::jit::Method& method : module.get_methods()) {
    refuse_torchs_rpc(name, method.function());
    script.methods.emplace(method.name(), &method.function());
  }
  scripts_.insert_or_assign(name, std::make_shared<const Script>(std::move(script)));
}

void Scripts::add(const std::string& name, std::shared_ptr<torch::jit::CompilationUnit> functions) {
  Script script{.functions = std::move(functions), .methods = {}, .self = {}};
  for (torch::jit::Function* function : script.functions->get_functions()) {
    refuse_torchs_rpc(name, *function);
    script.methods.emplace(function->name(), function);
  }
  scripts_.insert_or_assign(name, std::make_shared<const Script>(std::move(script)));
}

const std::shared_ptr<const Scripts::Script>& Scripts::find(const std::string& name) const {
  auto found = scripts_.find(name);
  if (found != scripts_.end()) {
    return found->second;
  }
  std::vector<std::string> names;
  for (const auto& [existing, script] : scripts_) {
    names.push_back(existing);
  }
  throw NotFoundError(fmt::format("no script \"{}\" is registered at the callee; there {}", name,
                                  names.empty() ? "is none" : fmt::format("are: {}", fmt::join(names, ", "))));
}

c10::IValue Scripts::call(const std::string& name, const std::string& method,
                          const std::vector<c10::IValue>& arguments) const {
  return prepare(name, method, arguments)();
}

std::function<c10::IValue()> Scripts::prepare(const std::string& name, const std::string& method,
                                              const std::vector<c10::IValue>& arguments) const {
  const std::shared_ptr<const Script>& script = find(name);
  auto found = script->methods.find(method);
  if (found == script->methods.end()) {
    throw NotFoundError(fmt::format("script \"{}\" has no \"{}\"; it has: {}", name, method, script->list()));
  }
  torch::jit::Function& function = *found->second;
  FittedArguments fitted =
      fit_arguments(function.getSchema(), arguments, script->self.isNone() ? nullptr : &script->self);
  if (!fitted.misfit.empty()) {
    throw InvalidArgumentError(fmt::format("script \"{}\" does not take these arguments: {}, by {}", name,
                                           fitted.misfit, text_of(function.getSchema())));
  }
  return [script, &function, stack = std::move(fitted.values)]() mutable { return function(std::move(stack)); };
}

}  // namespace gradwire
