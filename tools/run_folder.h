// The folder that the workers of one `gradwire run` share: only this user can enter it, and it goes with its owner.
// What a launcher that was killed left behind, the next one of this user removes.
#pragma once

#include <string>

#include "gradwire/net/held_folder.h"

namespace gradwire::tools {

class RunFolder {
 public:
  // With a fresh secret in it. Throws std::runtime_error in words.
  RunFolder();
  // Removes the folders of workers that were killed, too.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Where the workers meet: the file of a c10d FileStore, made by the first of them.
  std::string store() const { return folder_.path() + "/store"; }
  // 32 random bytes in hexadecimal digits.
  std::string secret() const { return folder_.path() + "/secret"; }

 private:
  net::HeldFolder folder_;
};

}  // namespace gradwire::tools
