// Another user of this host, for tests: a started process becomes one.
#pragma once

#include <grp.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace gradwire::testing {

constexpr uid_t stranger_id = 65534;

// Makes this process one of user 65534, for good. Returns why it cannot; empty if it could. Only root may: in a user
// namespace that an ordinary user makes, all of its users are that user for the kernel, so a worker would rightly let
// them in.
inline std::string become_stranger() {
  if (::geteuid() == stranger_id) return "this user has the stranger's id itself";
  if (::setgroups(0, nullptr) != 0 || ::setresgid(stranger_id, stranger_id, stranger_id) != 0 ||
      ::setresuid(stranger_id, stranger_id, stranger_id) != 0)
    return std::string("this process may not become another user: ") + std::strerror(errno);
  return "";
}

}  // namespace gradwire::testing
