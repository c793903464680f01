#include "gradwire/net/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "gradwire/net/acceptor.h"

namespace gradwire::net {
namespace {

// In /proc/net/unix, of a socket that listens (__SO_ACCEPTCON).
constexpr unsigned long accepts_connections = 0x10000;

// False if the path is too long.
bool fill(sockaddr_un& address, const std::string& path) {
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() > longest_unix_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return true;
}

Descriptor open_unix_socket() { return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

}  // namespace

const size_t longest_unix_path = sizeof(sockaddr_un::sun_path) - 1;

Descriptor listen_on_unix_socket(const std::string& path) {
  sockaddr_un address{};
  Descriptor socket = open_unix_socket();
  if (!fill(address, path)) errno = ENAMETOOLONG;
  if (!socket || address.sun_path[0] == '\0' ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::system_error(errno, std::generic_category(), path);
  if (::listen(socket.get(), longest_accept_queue) != 0) {
    const int error = errno;
    ::unlink(path.c_str());  // nobody listens there
    throw std::system_error(error, std::generic_category(), path);
  }
  return socket;
}

UnixConnection connect_to_unix_socket(const std::string& path) {
  sockaddr_un address{};
  if (!fill(address, path)) return {.error = ENAMETOOLONG};
  Descriptor socket = open_unix_socket();
  if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return {.error = errno};
  return {.socket = std::move(socket)};
}

bool is_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

std::optional<bool> is_in_own_folder(const std::string& path) {
  struct stat about{};
  if (::lstat(std::filesystem::path(path).parent_path().c_str(), &about) != 0) {
    if (errno == ENOENT) return {};
    return false;
  }
  return S_ISDIR(about.st_mode) && about.st_uid == ::geteuid() && (about.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

// One line for each socket: "Num RefCount Protocol Flags Type St Inode Path".
std::optional<bool> is_listened_to(const std::string& path) {
  std::ifstream sockets("/proc/net/unix");
  std::string line;
  if (!std::getline(sockets, line)) return {};
  while (std::getline(sockets, line)) {
    if (!line.ends_with(" " + path)) continue;
    std::istringstream words(line);
    std::string number, references, protocol;
    unsigned long flags = 0;
    words >> number >> references >> protocol >> std::hex >> flags;
    if (words && (flags & accepts_connections) != 0) return true;
  }
  return false;
}

}  // namespace gradwire::net
