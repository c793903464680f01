// Incarnations and ids. A worker's incarnation is random and new at each start, so two lives of one name never
// make the same id, and an id tells who made it.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace gradwire {

// Never 0 for a worker; 0 means "not known".
enum class Incarnation : uint64_t { none = 0 };

// A fresh one, from the kernel's random source.
Incarnation make_incarnation();

// Sixteen hexadecimal digits.
std::string to_string(Incarnation incarnation);

struct Id {
  Incarnation maker = Incarnation::none;
  uint64_t counter = 0;
  auto operator<=>(const Id&) const = default;
};

// "00ab...:7".
std::string to_string(const Id& id);

}  // namespace gradwire

template <>
struct std::hash<gradwire::Id> {
  size_t operator()(const gradwire::Id& id) const noexcept {
    return static_cast<uint64_t>(id.maker) ^ (id.counter * 0x9E3779B97F4A7C15ULL);
  }
};
