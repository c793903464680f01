// Folders in places that all users share: which are removed as abandoned, and which never.
#include "gradwire/net/held_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <utility>

#include <gmock/gmock.h>

#include "tests/support/socket_end.h"

namespace {

// What the next flock() of this thread does first. The window between the opening of a folder and its lock is too short
// for another process to be steered into it.
thread_local std::function<void(int file)> before_next_flock;

}  // namespace

// In the place of the C library's, for all of this program.
extern "C" int flock(int file, int operation) noexcept {
  if (before_next_flock) std::exchange(before_next_flock, nullptr)(file);
  return static_cast<int>(::syscall(SYS_flock, file, operation));
}

namespace gradwire::testing {
namespace {

using net::HeldFolder;
using net::worker_folders;

bool exists(const std::string& path) { return std::filesystem::exists(std::filesystem::symlink_status(path)); }

void sweep(const Folder& place) { net::remove_abandoned_folders(worker_folders(), place.path); }

std::string make(const Folder& place, const std::string& name, mode_t mode = S_IRWXU) {
  const std::string path = place / name;
  EXPECT_EQ(::mkdir(path.c_str(), mode), 0);
  EXPECT_EQ(::chmod(path.c_str(), mode), 0);
  return path;
}

TEST(HeldFolder, N4_IsRemovedByAnotherOnceNoProcessHoldsIt) {
  const Folder place;
  std::string path;
  {
    const HeldFolder folder(worker_folders(), place.path);
    path = folder.path();
    std::ofstream(path + "/s") << "";
    struct stat about{};
    ASSERT_EQ(::lstat(path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777U, S_IRWXU);
    sweep(place);
    EXPECT_TRUE(exists(path)) << "it is held";
  }  // as when its process is killed: the lock goes, the folder stays
  EXPECT_TRUE(exists(path + "/s"));
  sweep(place);
  EXPECT_FALSE(exists(path));
}

TEST(HeldFolder, N4_OnlyFoldersOfItsKindAreRemoved) {
  const Folder place;
  std::vector<std::string> kept = {
      make(place, "gradwire-results"),       make(place, "gradwire-group-Abc123"),
      make(place, "gradwire-Abc123"),        make(place, "gradwire-run-Abc123"),
      make(place, "gradwire-worker-Abc12"),  make(place, "other-Abc123"),
      make(place, "gradwire-worker-Abc12_"), make(place, "gradwire-worker-shared", 0755),
      make(place, "gradwire-worker-Abc124"), make(place, "gradwire-worker-Abc125"),
  };
  // Named and owned like a worker's folder, and yet someone's own.
  std::ofstream(kept[8] + "/checkpoint") << "weights";
  ASSERT_EQ(::mkdir((kept[9] + "/s").c_str(), 0700), 0);
  kept.push_back(make(place, "gradwire-worker-Abc126", 0750));
  const std::string removed = make(place, "gradwire-worker-Abc123");
  sweep(place);
  for (const std::string& path : kept) EXPECT_TRUE(exists(path)) << path;
  EXPECT_TRUE(exists(kept[8] + "/checkpoint"));
  EXPECT_FALSE(exists(removed));
}

TEST(HeldFolder, N4_ALinkIsNotFollowed) {
  const Folder place;
  const std::string target = make(place, "target");
  std::ofstream(target + "/s") << "";
  std::filesystem::create_directory_symlink(target, place / "gradwire-worker-Abc123");
  sweep(place);
  EXPECT_FALSE(net::remove_abandoned_folder(worker_folders(), place / "gradwire-worker-Abc123"));
  EXPECT_TRUE(exists(target + "/s"));
  EXPECT_TRUE(exists(place / "gradwire-worker-Abc123"));
}

TEST(HeldFolder, N4_OfAnotherUserIsNotRemoved) {
  if (::geteuid() != 0) GTEST_SKIP() << "a file can be given to another user by root alone";
  const Folder place;
  const std::string path = make(place, "gradwire-worker-Abc123");
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  sweep(place);
  EXPECT_TRUE(exists(path));
}

TEST(HeldFolder, IsMadeAnewUnderItsNameAndHeldAgain) {
  const Folder place;
  HeldFolder folder(worker_folders(), place.path);
  std::ofstream(folder.path() + "/s") << "";
  EXPECT_TRUE(folder.touch("s"));
  std::filesystem::remove_all(folder.path());
  EXPECT_FALSE(folder.is_there());
  EXPECT_FALSE(folder.touch("s"));
  EXPECT_TRUE(folder.make_anew());
  EXPECT_TRUE(folder.is_there());
  sweep(place);
  EXPECT_TRUE(exists(folder.path()));
  folder.remove(worker_folders());
  EXPECT_FALSE(exists(folder.path()));
}

TEST(HeldFolder, IsNotMadeAnewWhereSomeoneElseHasTakenItsName) {
  const Folder place;
  HeldFolder folder(worker_folders(), place.path);
  std::filesystem::remove_all(folder.path());
  ASSERT_EQ(::mkdir(folder.path().c_str(), 0700), 0);
  EXPECT_FALSE(folder.make_anew());
  EXPECT_FALSE(folder.is_there());
  folder.remove(worker_folders());
  EXPECT_TRUE(exists(folder.path())) << "it is not ours to remove";
}

// What another process does that takes the folder for abandoned; then somebody makes one of the same name.
void replace(int folder, std::string& path) {
  path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(folder));
  ASSERT_TRUE(net::remove_abandoned_folder(worker_folders(), path));
  ASSERT_EQ(::mkdir(path.c_str(), 0755), 0);
}

TEST(HeldFolder, N4_OneThatWasReplacedBeforeItsLockIsNotTakenForOnesOwn) {
  const Folder place;
  std::string replaced;
  before_next_flock = [&](int file) { replace(file, replaced); };
  const HeldFolder folder(worker_folders(), place.path);
  EXPECT_TRUE(folder.is_there());
  EXPECT_FALSE(replaced.empty());
  EXPECT_NE(folder.path(), replaced);
}

TEST(HeldFolder, N4_TouchingItKeepsItYoungForCleanersThatGoByAge) {
  const Folder place;
  const HeldFolder folder(worker_folders(), place.path);
  const std::string file = folder.path() + "/s";
  std::ofstream(file) << "";
  const std::array<timespec, 2> old = {timespec{1000, 0}, timespec{1000, 0}};
  for (const std::string& path : {folder.path(), file})
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old.data(), 0), 0);
  ASSERT_TRUE(folder.touch("s"));
  for (const std::string& path : {folder.path(), file}) {
    struct stat about{};
    ASSERT_EQ(::lstat(path.c_str(), &about), 0);
    EXPECT_GT(about.st_atime, 1'000'000) << path;
    EXPECT_GT(about.st_mtime, 1'000'000) << path;
  }
}

// What systemd-tmpfiles asks before it ages a folder.
TEST(HeldFolder, N4_IsLockedForCleanersThatAsk) {
  const Folder place;
  const HeldFolder folder(worker_folders(), place.path);
  const net::Descriptor other(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(other);
  EXPECT_NE(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
}

}  // namespace
}  // namespace gradwire::testing
