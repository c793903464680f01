#include "gradwire/rpc/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gradwire {
namespace {

std::vector<c10::IValue> values_of(wire::Payload&& arguments) {
  return detail::decode_arguments([&] { return wire::decode<std::vector<c10::IValue>>(std::move(arguments)); });
}

// What is wrong up to here is refused; what it throws when it runs is its own.
void answer(Reply& reply, const std::function<c10::IValue()>& run) {
  try {
    detail::answer<c10::IValue>(reply, run());
  } catch (...) {
    reply.fail(std::current_exception());
  }
}

}  // namespace

void detail::refuse_arguments(const wire::MalformedError& error) {
  throw InvalidArgumentError(std::string("its arguments do not decode: ") + error.what());
}

void Registry::add_entry(std::string name, Entry&& entry) {
  if (name.empty()) throw InvalidArgumentError("a function needs a name");
  if (!functions_.try_emplace(name, std::move(entry)).second)
    throw InvalidArgumentError(fmt::format("a function \"{}\" is registered already: names are for one each", name));
}

void Registry::hide_since(const Registry& before) {
  for (auto& [name, entry] : functions_)
    if (!before.functions_.contains(name)) entry.hidden = true;
}

void Registry::run(const Target& target, wire::Payload&& arguments, const std::shared_ptr<Reply>& reply) const {
  switch (target.kind) {
    case Target::Kind::function:
      return find(target.name, target.detail).body(std::move(arguments), reply);
    case Target::Kind::op:
      return answer(*reply, operators_.prepare(target.name, values_of(std::move(arguments))));
    case Target::Kind::script:
      return answer(*reply, scripts_.prepare(target.name, target.detail, values_of(std::move(arguments))));
  }
  throw InvalidArgumentError("a kind of call that is not known here");
}

const Registry::Entry& Registry::find(const std::string& name, const std::string& signature) const {
  auto found = functions_.find(name);
  if (found == functions_.end()) {
    std::vector<std::string_view> names;
    for (const auto& [registered, entry] : functions_)
      if (!entry.hidden) names.push_back(registered);
    throw NotFoundError(fmt::format("no function \"{}\" is registered there; {}{}", name,
                                    names.empty() ? "none is" : "there are: ", fmt::join(names, ", ")));
  }
  if (found->second.signature != signature)
    throw InvalidArgumentError(
        fmt::format("\"{}\" is {} there, and was called as {}: give it arguments of exactly "
                    "these types, or share a gradwire::Function between caller and callee",
                    name, found->second.signature, signature));
  return found->second;
}

}  // namespace gradwire
