// The state of an optimizer as a dictionary that plain torch reads:
//   {"optimizer": "Adam", "groups": [{"lr": 0.001, ...}], "state": [{"step": 3, "exp_avg": ...}, None, ...]}
#include <fmt/format.h>

#include "gradwire/base/torch_file.h"
#include "gradwire/optim/distributed_optimizer.h"

namespace gradwire::optim {
namespace {

using Dictionary = c10::impl::GenericDict;

Dictionary dictionary() { return Dictionary(c10::StringType::get(), c10::AnyType::get()); }

template <class Member>
c10::IValue value_of(const Member& member) {
  if constexpr (std::is_same_v<Member, at::Tensor>)
    return member.defined() ? c10::IValue(member) : c10::IValue();
  else
    return c10::IValue(member);
}

template <class Member>
void read(const c10::IValue& value, Member& member) {
  if constexpr (std::is_same_v<Member, at::Tensor>)
    member = value.isNone() ? at::Tensor() : value.toTensor();
  else
    member = value.to<Member>();
}

template <class Names, class Members>
c10::IValue named(const Names& names, const Members& members) {
  Dictionary dictionary_of_them = dictionary();
  std::apply(
      [&](const auto&... member) {
        size_t next = 0;
        (dictionary_of_them.insert(std::string(names[next++]), value_of(member)), ...);
      },
      members);
  return dictionary_of_them;
}

template <class Names, class Members>
void read_named(const c10::IValue& value, const Names& names, const Members& members) {
  const Dictionary given = value.toGenericDict();
  std::apply(
      [&](auto&... member) {
        size_t next = 0;
        (read(given.at(std::string(names[next++])), member), ...);
      },
      members);
}

// Calls `make` with the kind that has this name.
template <class... Options, class Make>
void for_kind(const std::string& name, std::variant<Options...>*, const Make& make) {
  bool found = false;
  const auto look = [&]<class Optimizer>(std::type_identity<Optimizer> kind) {
    if (name != Kind<Optimizer>::name) return;
    found = true;
    make(kind);
  };
  (look(std::type_identity<typename KindOf<Options>::type>()), ...);
  if (!found) throw InvalidArgumentError("it is of an optimizer \"" + name + "\", which there is none of");
}

}  // namespace

void save(const OptimizerState& state, const std::string& path) {
  Dictionary all = dictionary();
  c10::impl::GenericList groups(c10::AnyType::get()), parameters(c10::AnyType::get());
  for (const AnyOptions& options : state.options)
    std::visit(
        [&]<class Options>(const Options& of_kind) {
          using Its = Kind<typename KindOf<Options>::type>;
          all.insert_or_assign("optimizer", std::string(Its::name));
          groups.push_back(named(Its::setting_names, Its::settings(of_kind)));
        },
        options);
  for_kind(all.at("optimizer").toStringRef(), static_cast<AnyOptions*>(nullptr),
           [&]<class Optimizer>(std::type_identity<Optimizer>) {
             using Its = Kind<Optimizer>;
             for (const MaybeState& its : state.parameters)
               parameters.push_back(its ? named(Its::kept_names, Its::kept(std::get<StateOf<Optimizer>>(*its)))
                                        : c10::IValue());
           });
  all.insert("groups", groups);
  all.insert("state", parameters);
  write_torch_file(path, all);
}

OptimizerState load_optimizer_state(const std::string& path) {
  OptimizerState state;
  const c10::IValue read_values = read_torch_file(path);
  try {
    const Dictionary all = read_values.toGenericDict();
    for_kind(all.at("optimizer").toStringRef(), static_cast<AnyOptions*>(nullptr),
             [&]<class Optimizer>(std::type_identity<Optimizer>) {
               using Its = Kind<Optimizer>;
               for (const c10::IValue& group : all.at("groups").toListRef()) {
                 OptionsOf<Optimizer> options(0.0);
                 read_named(group, Its::setting_names, Its::settings(options));
                 state.options.emplace_back(options);
               }
               for (const c10::IValue& of_parameter : all.at("state").toListRef()) {
                 if (of_parameter.isNone()) {
                   state.parameters.emplace_back();
                   continue;
                 }
                 StateOf<Optimizer> its;
                 read_named(of_parameter, Its::kept_names, Its::kept(its));
                 state.parameters.emplace_back(std::move(its));
               }
             });
  } catch (const std::exception& error) {
    throw InvalidArgumentError(fmt::format("{} is not the state of an optimizer: {}", path, error.what()));
  }
  return state;
}

}  // namespace gradwire::optim
