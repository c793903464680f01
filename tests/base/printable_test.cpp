#include "gradwire/base/printable.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(Printable, W15_IsBoundedAndWithoutControlCharacters) {
  EXPECT_EQ(printable("use one release on both"), "use one release on both");
  EXPECT_EQ(printable("a\nERROR: b\x1b[2J"), "a\\x0aERROR: b\\x1b[2J");
  EXPECT_EQ(printable(std::string("\0\x7f\xff", 3)), "\\x00\\x7f\\xff");
  EXPECT_EQ(printable(std::string(size_t{16} << 20U, 'x')), std::string(longest_printable, 'x') + "...");
  EXPECT_EQ(printable("abc", 2), "ab...");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, W15_KnowsControlCharacters) {
  EXPECT_FALSE(has_control_characters("/tmp/gradwire-\xc3\xb6 1/s"));
  for (const char* text : {"a\n", "\x1b", "a\tb", "\x7f"}) EXPECT_TRUE(has_control_characters(text));
}

}  // namespace
}  // namespace gradwire
