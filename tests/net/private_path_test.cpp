// Files that another user could have made or could replace are refused.
#include "gradwire/net/private_path.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include <gmock/gmock.h>

#include "gradwire/base/error.h"
#include "gradwire/net/meeting_point.h"

#include "tests/support/socket_end.h"
#include "tests/support/thrown.h"

namespace gradwire::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::string& path) {
  return thrown<InvalidArgumentError>([&] { net::open_file_store(path); });
}

TEST(PrivatePath, W17_AStoreInAFolderThatOthersMayWriteToIsRefused) {
  const Folder folder;
  const std::string path = folder / "store";
  ASSERT_EQ(::chmod(folder.path.c_str(), 0777), 0);
  EXPECT_THAT(refusal(path), AllOf(HasSubstr(path), HasSubstr("GRADWIRE_STORE")));
  ASSERT_EQ(::chmod(folder.path.c_str(), 01777), 0);
  EXPECT_EQ(refusal(path), "(nothing)") << "the sticky bit: as /tmp";
  ASSERT_EQ(::chmod(folder.path.c_str(), 0755), 0);
  EXPECT_EQ(refusal(path), "(nothing)");
}

TEST(PrivatePath, W17_AStoreThatOthersMayWriteToIsRefused) {
  const Folder folder;
  const std::string path = folder / "store";
  EXPECT_EQ(refusal(path), "(nothing)");
  struct stat about{};
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U) << "a new one is for this user alone";
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  EXPECT_THAT(refusal(path), AllOf(HasSubstr(path), HasSubstr("GRADWIRE_STORE")));
}

// The group with this user's name and no other member, which many systems make for each user.
std::optional<gid_t> own_group() {
  const passwd* const user = ::getpwuid(::geteuid());
  if (user == nullptr) return {};
  const std::string name = user->pw_name;
  const group* const found = ::getgrnam(name.c_str());
  if (found == nullptr) return {};
  for (char** member = found->gr_mem; *member != nullptr; ++member)
    if (name != *member) return {};
  return found->gr_gid;
}

TEST(PrivatePath, W17_AUsersOwnGroupCountsAsTheUser) {
  const std::optional<gid_t> group = own_group();
  if (!group) GTEST_SKIP() << "this user has no group of its own";
  const Folder folder;
  const std::string path = folder / "store";
  EXPECT_EQ(refusal(path), "(nothing)");
  for (const auto& [each, mode] : {std::pair(folder.path, 0775), std::pair(path, 0660)}) {
    ASSERT_EQ(::chown(each.c_str(), static_cast<uid_t>(-1), *group), 0);
    ASSERT_EQ(::chmod(each.c_str(), static_cast<mode_t>(mode)), 0);
  }
  EXPECT_EQ(refusal(path), "(nothing)");
}

TEST(PrivatePath, W17_AFolderThatAGroupOfOthersMayWriteToIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "a folder can be given to any group by root alone";
  const Folder folder;
  ASSERT_EQ(::chown(folder.path.c_str(), static_cast<uid_t>(-1), 65534), 0);
  ASSERT_EQ(::chmod(folder.path.c_str(), 0775), 0);
  EXPECT_THAT(refusal(folder / "store"), AllOf(HasSubstr(folder.path), HasSubstr("GRADWIRE_STORE")));
}

TEST(PrivatePath, W17_AStoreThroughALinkInAFolderThatOthersMayWriteToIsRefused) {
  const Folder own;
  const Folder shared;
  EXPECT_EQ(refusal(own / "store"), "(nothing)");
  std::filesystem::create_symlink(own / "store", shared / "link");
  EXPECT_EQ(refusal(shared / "link"), "(nothing)");
  ASSERT_EQ(::chmod(shared.path.c_str(), 0777), 0);
  EXPECT_THAT(refusal(shared / "link"), HasSubstr(shared.path));
}

TEST(PrivatePath, W17_AStoreOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "a file can be given to another user by root alone";
  const Folder folder;
  const std::string path = folder / "store";
  EXPECT_EQ(refusal(path), "(nothing)");
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  EXPECT_THAT(refusal(path), AllOf(HasSubstr(path), HasSubstr("uid 65534")));
}

// Whoever owns a folder may replace what lies in it, whatever its mode is.
TEST(PrivatePath, W17_AFolderOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "a folder can be given to another user by root alone";
  const Folder folder;
  for (const mode_t mode : {0755U, 01777U}) {
    ASSERT_EQ(::chown(folder.path.c_str(), 65534, 65534), 0);
    ASSERT_EQ(::chmod(folder.path.c_str(), mode), 0);
    EXPECT_THAT(refusal(folder / "store"), AllOf(HasSubstr(folder.path), HasSubstr("uid 65534")));
    EXPECT_THAT(thrown<InvalidArgumentError>([&] { net::require_safe_folder(folder.path, "GRADWIRE_TRACE"); }),
                AllOf(HasSubstr(folder.path), HasSubstr("GRADWIRE_TRACE"), HasSubstr("uid 65534")));
  }
  ASSERT_EQ(::chown(folder.path.c_str(), 0, 0), 0);
  EXPECT_EQ(refusal(folder / "store"), "(nothing)") << "its owner is this user again";
}

TEST(PrivatePath, W17_AFolderOfRootIsNotRefused) {
  struct stat about{};
  ASSERT_EQ(::stat("/tmp", &about), 0);
  if (about.st_uid != 0 || (about.st_mode & S_ISVTX) == 0) GTEST_SKIP() << "/tmp is not root's here, or not sticky";
  EXPECT_EQ(thrown<InvalidArgumentError>([] { net::require_safe_folder("/tmp", "GRADWIRE_TRACE"); }), "(nothing)");
}

TEST(PrivatePath, W17_AMissingFolderIsNamed) {
  const Folder folder;
  EXPECT_THAT(refusal(folder / "none/store"), HasSubstr(folder / "none/store"));
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { net::require_safe_folder(folder / "none", "GRADWIRE_TRACE"); }),
              AllOf(HasSubstr(folder / "none"), HasSubstr("GRADWIRE_TRACE")));
}

}  // namespace
}  // namespace gradwire::testing
