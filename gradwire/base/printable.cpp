// Compiled into the launcher too, which knows nothing of torch.
#include "gradwire/base/printable.h"

#include <algorithm>

namespace gradwire {

std::string printable(std::string_view text, size_t most) {
  constexpr const char* digits = "0123456789abcdef";
  std::string result;
  for (const char character : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= ' ' && byte <= '~') {
      result += character;
    } else {
      result += "\\x";
      result += digits[byte >> 4U];
      result += digits[byte & 15U];
    }
  }
  return text.size() > most ? result + "..." : result;
}

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char character) {
    const auto byte = static_cast<unsigned char>(character);
    return byte < ' ' || byte == 0x7f;
  });
}

}  // namespace gradwire
