// Errors as they travel in replies.
#pragma once

#include <exception>
#include <string>

#include "gradwire/base/error.h"
#include "gradwire/wire/bytes.h"

namespace gradwire {

// What the function `function` of `worker` threw.
std::string encode_thrown(const std::exception_ptr& error, const std::string& worker, const std::string& function);
// What Gradwire itself refuses there.
std::string encode_refusal(const Error& error, const std::string& worker, const std::string& function);
// The error for the caller: RemoteError for what was thrown, the error's own class for what was refused. Throws
// MalformedError.
std::exception_ptr decode_error(std::string_view bytes, const std::string& worker);

}  // namespace gradwire
