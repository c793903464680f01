// Refuses files that another user could have made, or could change or replace.
#pragma once

#include <string>

namespace gradwire::net {

// `what` says where the path comes from ("GRADWIRE_STORE"), for the error.
//
// Throws InvalidArgumentError if users other than this one and root may remove or replace files in the folder: one of
// them owns it, or they may write to it and it lacks the sticky bit, which /tmp has. A group that is this user's own,
// of the same name and without other members, counts as the user.
void require_safe_folder(const std::string& folder, const std::string& what);

// Makes the file, empty, if there is none; otherwise throws InvalidArgumentError if it belongs to another user or if
// others may write to it. Checks its folder too.
void require_own_file(const std::string& path, const std::string& what);

}  // namespace gradwire::net
