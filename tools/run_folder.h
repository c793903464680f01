// The folder that the workers of one `gradwire run` share: only this user can enter it, and it goes with its owner.
#pragma once

#include <string>

namespace gradwire::tools {

class RunFolder {
 public:
  // With a fresh secret in it. Throws std::runtime_error in words.
  RunFolder();
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Where the workers meet: the file of a c10d FileStore, made by the first of them.
  std::string store() const { return path_ + "/store"; }
  // 32 random bytes in hexadecimal digits.
  std::string secret() const { return path_ + "/secret"; }

 private:
  std::string path_;
};

}  // namespace gradwire::tools
