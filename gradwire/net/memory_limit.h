// How much memory this process may have.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace gradwire::net {

// The machine's memory, or the limit of the process's control group where that is less. Read once.
size_t memory_limit();

// The lowest limit of the control groups that `membership` names (the text of /proc/self/cgroup) and of those above
// them, in the hierarchy that is mounted at `mount`. Version 2: memory.max; version 1: memory.limit_in_bytes. Nothing
// if there is no limit, or none that can be read.
std::optional<size_t> control_group_limit(const std::string& membership, const std::string& mount);

}  // namespace gradwire::net
