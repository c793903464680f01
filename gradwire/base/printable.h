// Text that came from elsewhere, made safe for a log or an error: bounded, on one line, without control characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gradwire {

inline constexpr size_t longest_printable = 256;

// Each byte that is no printable ASCII character becomes \x0a. Past `most` bytes of the text the rest becomes "...".
std::string printable(std::string_view text, size_t most = longest_printable);

// A newline, an escape sequence and the like. Bytes above 0x7f are none: paths may have them.
bool has_control_characters(std::string_view text);

}  // namespace gradwire
