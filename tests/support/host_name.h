// The name of this host, as the kernel has it; it may resolve or not.
#pragma once

#include <unistd.h>

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace gradwire::testing {

inline std::string name_of_this_host() {
  std::array<char, 256> name{};
  EXPECT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  return name.data();
}

}  // namespace gradwire::testing
