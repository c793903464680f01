// What the fuzz targets and the program that makes their seeds share.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "gradwire/wire/codec.h"

namespace gradwire::fuzz {

enum class Colour : uint8_t { red, green };

struct Sample {
  at::Tensor x;
  std::optional<std::string> label;
  std::vector<std::pair<int, double>> points;
};

// A type with every kind of decoder in it.
using Everything = std::tuple<bool, Colour, float, std::complex<double>, std::vector<bool>, std::vector<double>,
                              std::map<std::string, std::vector<int>>, std::unordered_map<int, std::string>,
                              std::variant<std::monostate, int, Sample>, std::vector<at::Tensor>,
                              std::vector<std::monostate>, std::array<std::string, 2>, Sample>;

// A payload as one string: a byte that says how many tensors there are, then the bytes. The tensors are all alike, as
// decoders do not look inside.
inline wire::Payload payload_of(std::string_view input) {
  wire::Payload payload;
  if (!input.empty()) {
    payload.tensors.resize(static_cast<uint8_t>(input[0]) % 8);
    payload.bytes = input.substr(1);
  }
  return payload;
}

inline std::string seed_of(const wire::Payload& payload) {
  return std::string(1, static_cast<char>(payload.tensors.size())) + payload.bytes;
}

}  // namespace gradwire::fuzz
