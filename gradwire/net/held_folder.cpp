#include "gradwire/net/held_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

namespace gradwire::net {
namespace {

constexpr size_t random_characters = 6;  // of mkdtemp
constexpr int most_attempts = 100;
constexpr mode_t permissions = S_IRWXU | S_IRWXG | S_IRWXO;

// Where flock reaches every process that can see the folder. On a network file system it may not, and a folder that
// looks abandoned may belong to a living process of another host.
constexpr std::array<uint32_t, 7> local_file_systems = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,       BTRFS_SUPER_MAGIC,
                                                        TMPFS_MAGIC,      OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
                                                        0x2fc12fc1 /*ZFS*/};

bool is_on_local_file_system(int folder) {
  struct statfs about{};
  return ::fstatfs(folder, &about) == 0 && std::find(local_file_systems.begin(), local_file_systems.end(),
                                                     static_cast<uint32_t>(about.f_type)) != local_file_systems.end();
}

bool same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

Descriptor open_folder(int parent, const char* name) {
  return Descriptor(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool has_name_of(const FolderKind& kind, std::string_view name) {
  return name.size() == kind.prefix.size() + random_characters && name.substr(0, kind.prefix.size()) == kind.prefix &&
         std::all_of(name.end() - random_characters, name.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Listing = std::unique_ptr<DIR, CloseFolder>;

// The names in a folder; nothing if it cannot be read.
Listing list(int folder) {
  Descriptor own(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Listing listing(own ? ::fdopendir(own.get()) : nullptr);
  if (listing) own.release();  // the listing closes it
  return listing;
}

bool is_special(std::string_view name) { return name == "." || name == ".."; }

bool holds_only(int folder, const std::vector<std::string_view>& files) {
  const Listing listing = list(folder);
  if (!listing) return false;
  while (const dirent* entry = ::readdir(listing.get()))
    if (!is_special(entry->d_name) && std::find(files.begin(), files.end(), entry->d_name) == files.end()) return false;
  return true;
}

void empty(int folder, const std::vector<std::string_view>& files) {
  for (const std::string_view file : files) ::unlinkat(folder, std::string(file).c_str(), 0);
}

bool remove_abandoned(const FolderKind& kind, int parent, const char* name) {
  if (!has_name_of(kind, name)) return false;
  const Descriptor folder = open_folder(parent, name);
  struct stat about{};
  if (!folder || ::fstat(folder.get(), &about) != 0) return false;
  if (about.st_uid != ::geteuid() || (about.st_mode & permissions) != S_IRWXU) return false;
  if (!is_on_local_file_system(folder.get()) || !holds_only(folder.get(), kind.files)) return false;
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) return false;
  // Its worker may have made the folder anew under this name before the lock was free.
  struct stat there{};
  if (::fstatat(parent, name, &there, AT_SYMLINK_NOFOLLOW) != 0 || !same_file(about, there)) return false;
  empty(folder.get(), kind.files);
  return ::unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

// Opens and locks the folder, which this process has just made. Nothing if another process, which takes it for
// abandoned, was faster.
Descriptor hold(const std::string& path) {
  Descriptor folder = open_folder(AT_FDCWD, path.c_str());
  struct stat about{};
  if (!folder || ::fstat(folder.get(), &about) != 0 || about.st_uid != ::geteuid()) return {};
  // Some network file systems have no lock for a folder. Nobody removes abandoned folders there.
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return {};
  struct stat there{};
  if (::lstat(path.c_str(), &there) != 0 || !same_file(about, there)) return {};
  return folder;
}

}  // namespace

// Never destroyed: a worker among the variables of a process removes its folder when these could be gone.
const FolderKind& worker_folders() {
  static const auto* const kind = new FolderKind{"gradwire-worker-", {"s"}};
  return *kind;
}

const FolderKind& run_folders() {
  static const auto* const kind = new FolderKind{"gradwire-group-", {"store", "secret"}};
  return *kind;
}

std::vector<std::string> folder_places() {
  std::vector<std::string> places;
  const auto add = [&](const char* place) {
    if (place == nullptr || *place == '\0') return;
    // A worker may change its directory.
    std::error_code error;
    std::string path = std::filesystem::absolute(place, error).lexically_normal().string();
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    if (!error && std::find(places.begin(), places.end(), path) == places.end()) places.push_back(std::move(path));
  };
  add(std::getenv("TMPDIR"));
  add("/tmp");
  add(std::getenv("XDG_RUNTIME_DIR"));
  return places;
}

HeldFolder::HeldFolder(const FolderKind& kind, const std::string& place) {
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    path_ = place + "/" + std::string(kind.prefix) + std::string(random_characters, 'X');
    if (::mkdtemp(path_.data()) == nullptr) break;
    lock_ = hold(path_);
    if (lock_) return;
    ::rmdir(path_.c_str());
  }
  throw std::system_error(errno, std::generic_category(), place);
}

bool HeldFolder::is_there() const {
  struct stat held{};
  struct stat there{};
  return lock_ && ::fstat(lock_.get(), &held) == 0 && ::lstat(path_.c_str(), &there) == 0 && same_file(held, there);
}

bool HeldFolder::make_anew() {
  if (::mkdir(path_.c_str(), S_IRWXU) != 0) return false;
  Descriptor lock = hold(path_);
  if (lock)
    lock_ = std::move(lock);
  else
    ::rmdir(path_.c_str());
  return is_there();
}

bool HeldFolder::touch(const std::string& file) const {
  return is_there() && ::futimens(lock_.get(), nullptr) == 0 &&
         ::utimensat(lock_.get(), file.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0;
}

void HeldFolder::remove(const FolderKind& kind) {
  if (!lock_) return;
  const bool there = is_there();
  empty(lock_.get(), kind.files);
  if (there) ::rmdir(path_.c_str());
  lock_ = Descriptor();
}

bool remove_abandoned_folder(const FolderKind& kind, const std::string& path) {
  const std::filesystem::path folder(path);
  const Descriptor parent(::open(folder.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return parent && remove_abandoned(kind, parent.get(), folder.filename().c_str());
}

void remove_abandoned_folders(const FolderKind& kind, const std::string& place) {
  const Descriptor parent(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent) return;
  std::vector<std::string> names;
  if (const Listing listing = list(parent.get()))
    while (const dirent* entry = ::readdir(listing.get()))
      if (has_name_of(kind, entry->d_name)) names.emplace_back(entry->d_name);
  for (const std::string& name : names) remove_abandoned(kind, parent.get(), name.c_str());
}

}  // namespace gradwire::net
