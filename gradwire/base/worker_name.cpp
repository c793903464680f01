// Compiled into the launcher too, which knows nothing of torch.
#include "gradwire/base/worker_name.h"

#include <string_view>

#include "gradwire/base/error.h"

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

// In quotation marks; what cannot be printed as \x0a.
std::string quoted(std::string_view text) {
  constexpr const char* digits = "0123456789abcdef";
  std::string result = "\"";
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= ' ' && byte <= '~') {
      result += character;
    } else {
      result += "\\x";
      result += digits[byte >> 4U];
      result += digits[byte & 15U];
    }
  }
  return result + "\"";
}

}  // namespace

void check_worker_name(const std::string& name) {
  const std::string_view view = name;
  const std::string shown = "the name " + quoted(view.substr(0, longest)) + (name.size() > longest ? "..." : "");
  for (size_t i = 0; i < name.size(); ++i)
    if (!is_allowed(name[i]))
      throw InvalidArgumentError(shown + " is wrong at character " + std::to_string(i + 1) + ", " +
                                 quoted(view.substr(i, 1)) + ": " + rule);
  if (name.empty()) throw InvalidArgumentError(shown + " is empty: " + rule);
  if (name.size() > longest)
    throw InvalidArgumentError(shown + " has " + std::to_string(name.size()) + " characters: " + rule);
}

}  // namespace gradwire
