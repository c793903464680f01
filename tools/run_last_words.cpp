#include "tools/run_last_words.h"

#include <algorithm>

namespace gradwire::tools {
namespace {

constexpr size_t most_lines = 40;
constexpr size_t longest_line = 4096;
// What std::terminate writes before an exception's text.
constexpr std::string_view before_text = "  what():  ";

}  // namespace

void LastWords::add(std::string_view line) {
  lines_.emplace_back(line.substr(0, longest_line));
  if (lines_.size() > most_lines) lines_.pop_front();
}

std::string LastWords::error() const {
  const auto begins = std::find_if(lines_.rbegin(), lines_.rend(),
                                   [](const std::string& line) { return line.starts_with(before_text); });
  if (begins == lines_.rend()) {
    const auto last =
        std::find_if(lines_.rbegin(), lines_.rend(), [](const std::string& line) { return !line.empty(); });
    return last == lines_.rend() ? "" : *last;
  }
  std::string text = begins->substr(before_text.size());
  for (auto line = begins.base(); line != lines_.end(); ++line) text += "\n" + *line;
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace gradwire::tools
