// Where traces are written to.
#include "gradwire/rpc/trace.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>

#include "gradwire/base/error.h"

#include "tests/support/socket_end.h"
#include "tests/support/thrown.h"

namespace gradwire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Trace, W17_IsNotWrittenToAFolderWhereOthersMayReplaceIt) {
  const testing::Folder folder;
  ::setenv("GRADWIRE_TRACE", folder.path.c_str(), 1);
  const auto refusal = [&] {
    return testing::thrown<InvalidArgumentError>([] { Trace::of("worker0", 0, make_incarnation()); });
  };
  EXPECT_EQ(refusal(), "(nothing)");
  ASSERT_EQ(::chmod(folder.path.c_str(), 0777), 0);
  EXPECT_THAT(refusal(), AllOf(HasSubstr(folder.path), HasSubstr("GRADWIRE_TRACE")));
  ASSERT_EQ(::chmod(folder.path.c_str(), 01777), 0);
  EXPECT_EQ(refusal(), "(nothing)");
  ::unsetenv("GRADWIRE_TRACE");
}

TEST(Trace, W17_IsNotWrittenThroughALinkThatWasThereBefore) {
  const testing::Folder folder;
  ::setenv("GRADWIRE_TRACE", folder.path.c_str(), 1);
  const Incarnation incarnation = make_incarnation();
  std::filesystem::create_symlink(folder / "target", folder / ("worker0-" + to_string(incarnation) + ".trace"));
  EXPECT_THAT(testing::thrown<InvalidArgumentError>([&] { Trace::of("worker0", 0, incarnation); }),
              HasSubstr(folder.path));
  EXPECT_FALSE(std::filesystem::exists(folder / "target"));
  ::unsetenv("GRADWIRE_TRACE");
}

}  // namespace
}  // namespace gradwire
