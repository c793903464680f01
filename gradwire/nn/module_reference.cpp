#include "gradwire/nn/module_reference.h"

#include <map>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gradwire/rref/fetch.h"

namespace gradwire::nn {
namespace {

using References = std::vector<std::pair<std::string, RRef<at::Tensor>>>;

constexpr Function<References(ModuleReference)> parameters_there{"nn.parameters"};
constexpr Function<References(ModuleReference)> buffers_there{"nn.buffers"};
constexpr Function<std::vector<std::string>(ModuleReference)> submodules_there{"nn.submodules"};
constexpr Function<void(ModuleReference, bool)> train_there{"nn.train"};
constexpr Function<std::vector<NamedValue>(ModuleReference)> state_there{"nn.state"};
constexpr Function<void(ModuleReference, std::vector<NamedValue>)> load_there{"nn.load_state"};

template <class Result, class... Arguments>
Future<Result> at_owner(const ModuleReference& module, const Function<Result(ModuleReference, Arguments...)>& function,
                        const Arguments&... arguments) {
  return RRef<void>(module.reference())
      .begin<Result>(
          {Target::Kind::function, std::string(function.name()), signature<Result, ModuleReference, Arguments...>()},
          wire::encode(module, arguments...));
}

template <class Result, class... Arguments, class Body>
void add(Registry& registry, const Function<Result(ModuleReference, Arguments...)>& function, const Body& body) {
  registry.add_entry(
      std::string(function.name()),
      {.signature = signature<Result, ModuleReference, Arguments...>(),
       .body = [body](wire::Payload&& payload, const std::shared_ptr<Reply>& reply) {
         auto values = std::make_shared<std::tuple<ModuleReference, Arguments...>>(detail::decode_arguments(
             [&] { return wire::decode_all<ModuleReference, Arguments...>(std::move(payload)); }));
         const std::shared_ptr<Reference> reference = std::get<0>(*values).reference();
         with_referent(reference, reply, [body, values, reference, reply](const Kept& kept) {
           if (kept.type->as_module == nullptr)
             throw InvalidArgumentError(fmt::format("{} refers to a {}, which is no torch::nn module",
                                                    to_string(*reference), kept.type->name));
           const std::shared_ptr<torch::nn::Module> module = kept.type->as_module(kept.value);
           detail::run_body<Result>(
               [&]() -> Result {
                 return std::apply([&](auto&, auto&... argument) -> Result { return body(*module, argument...); },
                                   *values);
               },
               nullptr, reply);
         });
       }});
}

References shared(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  References references;
  for (const auto& item : tensors)
    if (item.value().defined()) references.emplace_back(item.key(), Worker::current().share(at::Tensor(item.value())));
  return references;
}

std::vector<NamedValue> values_of(const torch::nn::Module& module) {
  std::vector<NamedValue> values;
  for (const auto& item : module.named_parameters()) values.push_back({item.key(), item.value().detach(), false});
  for (const auto& item : module.named_buffers()) values.push_back({item.key(), item.value().detach(), true});
  std::erase_if(values, [](const NamedValue& one) { return !one.value.defined(); });
  return values;
}

void load(const torch::nn::Module& module, const std::vector<NamedValue>& given) {
  std::map<std::string, at::Tensor> left;
  for (const NamedValue& one : given) left[one.name] = one.value;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  std::vector<std::string> wrong;
  for (const NamedValue& mine : values_of(module)) {
    const auto found = left.find(mine.name);
    if (found == left.end()) {
      wrong.push_back(mine.name + " is missing");
      continue;
    }
    if (!found->second.defined() || found->second.sizes() != mine.value.sizes())
      wrong.push_back(fmt::format("{} has another shape than [{}]", mine.name, fmt::join(mine.value.sizes(), ", ")));
    else
      pairs.emplace_back(mine.value, found->second);
    left.erase(found);
  }
  for (const auto& [name, value] : left) wrong.push_back(name + " is none of the module's");
  if (!wrong.empty())
    throw InvalidArgumentError(fmt::format("this is the state of another module: {}", fmt::join(wrong, "; ")));
  const at::NoGradGuard guard;
  for (auto& [mine, value] : pairs) mine.copy_(value);
}

}  // namespace

Future<std::vector<std::pair<std::string, RRef<at::Tensor>>>> named_parameters(const ModuleReference& module) {
  return at_owner(module, parameters_there);
}

Future<std::vector<std::pair<std::string, RRef<at::Tensor>>>> named_buffers(const ModuleReference& module) {
  return at_owner(module, buffers_there);
}

Future<std::vector<RRef<at::Tensor>>> parameters(const ModuleReference& module) {
  return named_parameters(module).then([](const References& named) {
    std::vector<RRef<at::Tensor>> references;
    for (const auto& [name, reference] : named) references.push_back(reference);
    return references;
  });
}

Future<std::vector<RRef<at::Tensor>>> parameters(const std::vector<ModuleReference>& modules) {
  std::vector<Future<std::vector<RRef<at::Tensor>>>> of_each;
  of_each.reserve(modules.size());
  for (const ModuleReference& module : modules) of_each.push_back(parameters(module));
  return when_all(std::move(of_each)).then([](const std::vector<std::vector<RRef<at::Tensor>>>& lists) {
    std::vector<RRef<at::Tensor>> references;
    for (const auto& list : lists) references.insert(references.end(), list.begin(), list.end());
    return references;
  });
}

Future<std::vector<std::string>> submodules(const ModuleReference& module) {
  return at_owner(module, submodules_there);
}

Future<void> train(const ModuleReference& module, bool on) { return at_owner(module, train_there, on); }

Future<void> eval(const ModuleReference& module) { return train(module, false); }

Future<std::vector<NamedValue>> state(const ModuleReference& module) { return at_owner(module, state_there); }

Future<void> load_state(const ModuleReference& module, const std::vector<NamedValue>& values) {
  return at_owner(module, load_there, values);
}

void add_modules(Registry& registry) {
  add(registry, parameters_there, [](const torch::nn::Module& module) { return shared(module.named_parameters()); });
  add(registry, buffers_there, [](const torch::nn::Module& module) { return shared(module.named_buffers()); });
  add(registry, submodules_there,
      [](const torch::nn::Module& module) { return module.named_modules("", /*include_self=*/false).keys(); });
  add(registry, train_there, [](torch::nn::Module& module, bool on) { module.train(on); });
  add(registry, state_there, [](const torch::nn::Module& module) { return values_of(module); });
  add(registry, load_there,
      [](const torch::nn::Module& module, const std::vector<NamedValue>& values) { load(module, values); });
}

}  // namespace gradwire::nn
