// Folders that processes of one user make for themselves in a place that all users share, such as /tmp.
//
// A process that lives holds a lock (flock) on its folder. One that was killed leaves its folder unlocked, and another
// process of the same user removes it then. The lock is the only proof: process ids mean nothing across PID namespaces
// that share /tmp. systemd-tmpfiles does not age folders that are locked.
//
// One thread at a time. The program `gradwire` uses this too, so it needs nothing but the standard library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gradwire/net/descriptor.h"

namespace gradwire::net {

// A kind of folder: how its names begin (six letters and digits follow), and the files that its owner makes in it. A
// folder with anything else in it is not removed.
struct FolderKind {
  std::string_view prefix;
  std::vector<std::string_view> files;
};

// The folder of a worker's socket, and that of one `gradwire run`. Releases before the lock used other names
// (gradwire-, gradwire-run-), so that their folders are never taken for abandoned.
const FolderKind& worker_folders();
const FolderKind& run_folders();

// Where workers make their folders, in this order: TMPDIR, /tmp, XDG_RUNTIME_DIR. The last one is removed when its user
// logs out, while programs may go on.
std::vector<std::string> folder_places();

class HeldFolder {
 public:
  HeldFolder() = default;
  // Makes a folder with mode 0700 and locks it. Throws std::system_error.
  HeldFolder(const FolderKind& kind, const std::string& place);

  const std::string& path() const { return path_; }
  int descriptor() const { return lock_.get(); }
  // Whether the path still leads to this folder.
  bool is_there() const;
  // Makes the folder anew under its name, after someone removed it. False where that cannot be done.
  bool make_anew();
  // Sets the times of the folder and of a file in it to now, for cleaners that go by age. False if one is gone.
  bool touch(const std::string& file) const;
  // Removes the folder and this kind's files in it, and gives up the lock. Does nothing the second time.
  void remove(const FolderKind& kind);

 private:
  std::string path_;
  Descriptor lock_;
};

// Removes this folder if it is of this kind, belongs to this user alone (mode 0700), is on a local file system, holds
// only the kind's own files, and no process holds its lock. No link is followed. Returns whether it removed the folder.
bool remove_abandoned_folder(const FolderKind& kind, const std::string& path);
// The same for all folders in a place.
void remove_abandoned_folders(const FolderKind& kind, const std::string& place);

}  // namespace gradwire::net
