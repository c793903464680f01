#include "gradwire/rref/registered_type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gradwire {

const RegisteredType& registered_type(const Registry& registry, const std::type_info& type) {
  auto found = registry.types().find(type);
  if (found != registry.types().end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [index, registered] : registry.types()) names.push_back(registered.name);
  throw InvalidArgumentError(fmt::format(
      "the type {0} is not registered here: registry.add_type<{0}>(\"{0}\"), with its constructors and "
      "methods, at the caller and at the owner. {1}{2}",
      wire::short_name(type), names.empty() ? "No type is registered" : "Registered are: ", fmt::join(names, ", ")));
}

const std::string& registered_method(const RegisteredType& type, const std::string& key) {
  std::vector<std::string> names;
  for (const RegisteredType::Method& method : type.methods) {
    if (method.key == key) return method.function;
    names.push_back(method.function);
  }
  throw InvalidArgumentError(
      fmt::format("this method of {0} is not registered here: add .method(\"name\", &{0}::...) where the type is "
                  "registered, at the caller and at the owner. {1}{2}",
                  type.name, names.empty() ? "None is registered" : "Registered are: ", fmt::join(names, ", ")));
}

void construct(const std::string& type, const Constructors& constructors, wire::Payload&& arguments, Reply& reply) {
  if (!reply.keeps()) throw InvalidArgumentError("an object is made for a reference: use Peer::make");
  const std::function<Kept()> make = detail::decode_arguments([&] {
    wire::Decoder decoder(std::move(arguments));
    const auto given = decoder.take<std::vector<std::string>>();
    const Constructor* chosen = nullptr;
    for (bool converted : {false, true})
      for (const Constructor& constructor : constructors)
        if (chosen == nullptr && constructor.takes(given, converted)) chosen = &constructor;
    if (chosen == nullptr) {
      std::vector<std::string> there;
      for (const Constructor& constructor : constructors)
        there.push_back(fmt::format("{}({})", type, fmt::join(constructor.parameters, ", ")));
      throw InvalidArgumentError(fmt::format(
          "a {} cannot be made from ({}); {}{}", type, fmt::join(given, ", "),
          there.empty() ? "it has no constructor there: add .constructor<...>() where the type is registered"
                        : "there are: ",
          fmt::join(there, ", ")));
    }
    auto prepared = chosen->prepare(decoder, given);
    decoder.expect_end();
    return prepared;
  });
  Kept kept;
  try {
    kept = make();
  } catch (...) {
    return reply.fail(std::current_exception());
  }
  reply.keep(std::move(kept));
}

}  // namespace gradwire
