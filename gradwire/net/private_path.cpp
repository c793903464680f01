#include "gradwire/net/private_path.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "gradwire/base/error.h"
#include "gradwire/net/descriptor.h"

namespace gradwire::net {
namespace {

constexpr uid_t superuser = 0;

[[noreturn]] void refuse(const std::string& what, const std::string& path, const std::string& why) {
  throw InvalidArgumentError(fmt::format("{} is {}, {}", what, path, why));
}

// Many systems give each user a group of the same name, and let this group write to everything.
bool is_own_group(gid_t group) {
  std::array<char, 16384> user_text{};
  std::array<char, 16384> group_text{};
  passwd user{};
  passwd* found_user = nullptr;
  ::group entry{};
  ::group* found_group = nullptr;
  if (::getpwuid_r(::geteuid(), &user, user_text.data(), user_text.size(), &found_user) != 0 || found_user == nullptr ||
      ::getgrgid_r(group, &entry, group_text.data(), group_text.size(), &found_group) != 0 || found_group == nullptr)
    return false;
  if (std::strcmp(user.pw_name, entry.gr_name) != 0) return false;
  for (char** member = entry.gr_mem; *member != nullptr; ++member)
    if (std::strcmp(*member, user.pw_name) != 0) return false;
  return true;
}

bool others_may_write(const struct stat& about) {
  return (about.st_mode & S_IWOTH) != 0 || ((about.st_mode & S_IWGRP) != 0 && !is_own_group(about.st_gid));
}

}  // namespace

void require_safe_folder(const std::string& folder, const std::string& what) {
  struct stat about{};
  if (::stat(folder.c_str(), &about) != 0) refuse(what, folder, std::strerror(errno));
  if (!S_ISDIR(about.st_mode)) refuse(what, folder, "which is no folder");
  // Its owner may remove and replace files in it, and the sticky bit does not change that.
  if (about.st_uid != ::geteuid() && about.st_uid != superuser)
    refuse(
        what, folder,
        fmt::format("which belongs to another user (uid {}, this one is {}): choose a folder of this user or of root",
                    about.st_uid, ::geteuid()));
  if (others_may_write(about) && (about.st_mode & S_ISVTX) == 0)
    refuse(what, folder,
           "where other users may replace files: chmod go-w it, or choose a folder that this user alone may write to");
}

void require_own_file(const std::string& path, const std::string& what) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  struct stat about{};
  if (!file || ::fstat(file.get(), &about) != 0)
    refuse(what, path, fmt::format("which cannot be opened for reading and writing: {}", std::strerror(errno)));
  if (!S_ISREG(about.st_mode)) refuse(what, path, "which is no file");
  if (about.st_uid != ::geteuid())
    refuse(what, path,
           fmt::format("a file that belongs to another user (uid {}, this one is {}): choose a new file", about.st_uid,
                       ::geteuid()));
  if (others_may_write(about)) refuse(what, path, "a file that other users may write to: choose a new file");
  // Where the path is a link, what matters is the folder of the link and that of its target.
  for (const std::filesystem::path& each : {std::filesystem::absolute(path), std::filesystem::canonical(path)})
    require_safe_folder(each.parent_path(), "the folder of " + what + "=" + path);
}

}  // namespace gradwire::net
