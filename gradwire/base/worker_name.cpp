// Compiled into the launcher too, which knows nothing of torch.
#include "gradwire/base/worker_name.h"

#include <string_view>

#include "gradwire/base/error.h"
#include "gradwire/base/printable.h"

namespace gradwire {
namespace {

constexpr size_t longest = 128;
constexpr const char* rule =
    "a worker's name has 1 to 128 characters, each a letter (a-z, A-Z), a digit, or one of - _ . : /";

bool is_allowed(char character) {
  // Not isalnum: the locale has no say in it.
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9') || std::string_view("-_.:/").find(character) != std::string_view::npos;
}

}  // namespace

void check_worker_name(const std::string& name) {
  const auto refuse = [&name](const std::string& why) {
    throw InvalidArgumentError("the name \"" + printable(name, longest) + "\" " + why + ": " + rule);
  };
  for (size_t i = 0; i < name.size(); ++i)
    if (!is_allowed(name[i]))
      refuse("is wrong at character " + std::to_string(i + 1) + ", \"" + printable({&name[i], 1}) + "\"");
  if (name.empty()) refuse("is empty");
  if (name.size() > longest) refuse("has " + std::to_string(name.size()) + " characters");
}

}  // namespace gradwire
