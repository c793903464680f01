// How long the long campaigns are: whole by default, a tenth under a sanitizer, ten times as long in `make check`.
#pragma once

#include <cstdlib>

namespace gradwire::testing {

inline int campaign(int runs) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  runs = runs / 10 + 1;
#endif
  const char* factor = std::getenv("GRADWIRE_CAMPAIGN");
  return factor != nullptr ? runs * std::atoi(factor) : runs;
}

}  // namespace gradwire::testing
