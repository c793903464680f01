// Unix sockets in folders that one user alone can enter.
#pragma once

#include <optional>
#include <string>

#include "gradwire/net/descriptor.h"

namespace gradwire::net {

// How long a socket's path may be.
extern const size_t longest_unix_path;

// Binds a new socket to the path and listens. Throws std::system_error.
Descriptor listen_on_unix_socket(const std::string& path);

// Connects without waiting; without a socket, `error` is the errno.
struct UnixConnection {
  Descriptor socket;
  int error = 0;
};
UnixConnection connect_to_unix_socket(const std::string& path);

// Whether the process at the other end runs as this user. The kernel says so (SO_PEERCRED).
bool is_same_user(int socket);

// Whether the folder of this path belongs to this user, and nobody else can enter it. A folder that is a link is not
// followed. Nothing if there is no such folder.
std::optional<bool> is_in_own_folder(const std::string& path);

// Whether a process still listens on a socket that was bound to this path, even if the path has been removed. Nothing
// if the kernel does not tell (no /proc).
std::optional<bool> is_listened_to(const std::string& path);

}  // namespace gradwire::net
