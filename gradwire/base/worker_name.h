// The one rule for the names of workers (C24), in fixed and growing groups, in the library and in the launcher.
#pragma once

#include <string>

namespace gradwire {

// 1 to 128 characters out of letters, digits and - _ . : /
// Throws InvalidArgumentError with the rule, the name, and where it is wrong.
void check_worker_name(const std::string& name);

}  // namespace gradwire
