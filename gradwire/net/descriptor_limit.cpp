#include "gradwire/net/descriptor_limit.h"

#include <sys/resource.h>

#include <atomic>
#include <limits>

#include <c10/util/Logging.h>
#include <fmt/format.h>

namespace gradwire::net {
namespace {

// Plain numbers of the process, because a forked child reads them, where no lock may be taken. Zero: not raised.
std::atomic<rlim_t> before = 0;
std::atomic<rlim_t> raised_to = 0;

}  // namespace

void raise_descriptor_limit() {
  rlimit limit{};
  if (raised_to != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  const rlim_t soft = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    VLOG(1) << "gradwire: cannot raise the limit on open files from " << soft << " to " << limit.rlim_max;
    return;
  }
  before = soft;
  raised_to = limit.rlim_max;
}

void restore_descriptor_limit() noexcept {
  rlimit limit{};
  // If the program has set another limit since, that one is meant.
  if (raised_to == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur != raised_to) return;
  limit.rlim_cur = before;
  setrlimit(RLIMIT_NOFILE, &limit);
}

size_t shared_descriptors() {
  constexpr size_t share = 4;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<size_t>::max() / share;
  return limit.rlim_cur / share;
}

bool no_descriptors_left(const std::error_code& error) {
  return error == std::errc::too_many_files_open || error == std::errc::too_many_files_open_in_system;
}

OverloadedError no_descriptors(const std::string& what) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return OverloadedError(
      fmt::format("this process has no descriptor left ({}): its limit on open files (RLIMIT_NOFILE) is {}, and {} at "
                  "most. Raise it (ulimit -n, or LimitNOFILE= of its service), or open fewer files",
                  what, limit.rlim_cur, limit.rlim_max));
}

}  // namespace gradwire::net
