#include "gradwire/wire/type_name.h"

#include <c10/util/Type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gradwire::wire {

std::string short_name(const std::type_info& type) {
  std::string full = c10::demangle(type.name());
  // "run(pair<a, b>)::Batch<c::d>": the name begins after the last "::" that is outside of all brackets, and ends
  // before the next bracket.
  size_t begin = 0;
  int open = 0;
  for (size_t i = 0; i < full.size(); ++i) {
    char letter = full[i];
    if (letter == '<' || letter == '(' || letter == '{' || letter == '[') {
      ++open;
    } else if (letter == '>' || letter == ')' || letter == '}' || letter == ']') {
      --open;
    } else if (letter == ':' && open == 0) {
      begin = i + 1;
    }
  }
  std::string name = full.substr(begin, full.find_first_of("<({[", begin) - begin);
  return name.empty() ? "unnamed" : name;
}

std::string template_name(const std::string& name, std::initializer_list<std::string> arguments) {
  return fmt::format("{}<{}>", name, fmt::join(arguments.begin(), arguments.end(), ","));
}

std::string braced(std::initializer_list<std::string> fields) {
  return fmt::format("{{{}}}", fmt::join(fields.begin(), fields.end(), ","));
}

}  // namespace gradwire::wire
