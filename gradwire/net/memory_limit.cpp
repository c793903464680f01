#include "gradwire/net/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

namespace gradwire::net {
namespace {

// "max" is no limit.
std::optional<size_t> number_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string text;
  stream >> text;
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

// In a container without a namespace of its own for control groups, the path is the host's, and what is mounted is the
// container's group: then only the top of the hierarchy is there to be read.
std::optional<size_t> lowest_limit(const std::filesystem::path& mount, const std::filesystem::path& group,
                                   const char* file) {
  std::optional<size_t> lowest;
  for (std::filesystem::path at = group.relative_path();; at = at.parent_path()) {
    if (const std::optional<size_t> limit = number_in(mount / at / file))
      lowest = std::min(lowest.value_or(std::numeric_limits<size_t>::max()), *limit);
    if (at.empty()) return lowest;
  }
}

size_t memory_of_machine() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(getpagesize())
                   : std::numeric_limits<size_t>::max();
}

}  // namespace

// Lines of "hierarchy:controllers:path": version 2 is hierarchy 0, without controllers.
std::optional<size_t> control_group_limit(const std::string& membership, const std::string& mount) {
  std::optional<size_t> lowest;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    std::optional<size_t> limit;
    if (line.starts_with("0::"))
      limit = lowest_limit(mount, path, "memory.max");
    else if (controllers.find(",memory,") != std::string::npos)
      limit = lowest_limit(mount + "/memory", path, "memory.limit_in_bytes");
    if (limit) lowest = std::min(lowest.value_or(*limit), *limit);
  }
  return lowest;
}

size_t memory_limit() {
  static const size_t limit = [] {
    std::ostringstream membership;
    membership << std::ifstream("/proc/self/cgroup").rdbuf();
    const size_t machine = memory_of_machine();
    return std::min(machine, control_group_limit(membership.str(), "/sys/fs/cgroup").value_or(machine));
  }();
  return limit;
}

}  // namespace gradwire::net
