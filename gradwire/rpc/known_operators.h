// The operators of aten that a pattern may reach: what torch 2.11 to 2.15 has, looked at one by one or by their kind.
//
// An operator that a newer torch adds is not among them, so no pattern reaches it until it was looked at and added
// here. operator_reach.cpp still keeps patterns from some of these, by other rules.
#pragma once

#include <string_view>

namespace gradwire {

// `name` without its namespace and overload: "add".
bool is_known_operator(std::string_view name);

}  // namespace gradwire
