// A meeting point for the processes of one test.
#pragma once

#include <filesystem>
#include <string>

#include "gradwire/base/id.h"

namespace gradwire::testing {

struct StoreFile {
  StoreFile() : path(std::filesystem::temp_directory_path() / ("gradwire-test-" + to_string(make_incarnation()))) {}
  ~StoreFile() { std::filesystem::remove(path); }
  StoreFile(const StoreFile&) = delete;
  StoreFile& operator=(const StoreFile&) = delete;
  const std::string path;
};

}  // namespace gradwire::testing
