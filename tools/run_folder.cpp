#include "tools/run_folder.h"

#include <fcntl.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "gradwire/net/descriptor.h"

namespace gradwire::tools {
namespace {

std::string random_digits() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error(std::string("no random bytes for the secret: ") + std::strerror(errno));
  std::string digits;
  for (const unsigned char byte : bytes) {
    digits += "0123456789abcdef"[byte >> 4U];
    digits += "0123456789abcdef"[byte & 15U];
  }
  return digits;
}

void write_secret(const std::string& path) {
  const std::string text = random_digits() + "\n";
  const net::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error("the secret cannot be written to " + path + ": " + std::strerror(errno));
}

void remove(const std::string& path) {
  std::error_code ignored;  // a folder that cannot be removed is no reason to fail a run
  std::filesystem::remove_all(path, ignored);
}

net::HeldFolder make_folder() {
  const std::string place = net::folder_places().front();
  net::remove_abandoned_folders(net::run_folders(), place);
  try {
    return {net::run_folders(), place};
  } catch (const std::system_error& error) {
    throw std::runtime_error("no folder can be made in " + place + " (TMPDIR says where): " + error.code().message());
  }
}

}  // namespace

RunFolder::RunFolder() : folder_(make_folder()) {
  try {
    write_secret(secret());
  } catch (...) {
    remove(folder_.path());
    throw;
  }
}

RunFolder::~RunFolder() {
  remove(folder_.path());
  for (const std::string& place : net::folder_places()) net::remove_abandoned_folders(net::worker_folders(), place);
}

}  // namespace gradwire::tools
