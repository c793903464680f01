#include "gradwire/rpc/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gradwire {

const Registry::Body& Registry::find(const std::string& name) const {
  auto found = functions_.find(name);
  if (found != functions_.end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [registered, body] : functions_) names.push_back(registered);
  throw NotFoundError(fmt::format("no function \"{}\" is registered; there are: {}", name, fmt::join(names, ", ")));
}

}  // namespace gradwire
