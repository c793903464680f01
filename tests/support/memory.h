// What memory this process has.
#pragma once

#include <unistd.h>

#include <fstream>

namespace gradwire::testing {

struct ProcessMemory {
  size_t mapped = 0;    // what RLIMIT_AS bounds
  size_t resident = 0;  // what takes pages
};

inline ProcessMemory process_memory() {
  std::ifstream file("/proc/self/statm");
  ProcessMemory pages;
  file >> pages.mapped >> pages.resident;
  const auto page = static_cast<size_t>(getpagesize());
  return {pages.mapped * page, pages.resident * page};
}

}  // namespace gradwire::testing
