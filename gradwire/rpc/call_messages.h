// The messages of calls; docs/protocol.md, "Calls".
#pragma once

#include "gradwire/net/message.h"

namespace gradwire {

inline constexpr net::MessageType request_type{16};
inline constexpr net::MessageType reply_type{17};
inline constexpr net::MessageType cancel_type{18};

}  // namespace gradwire
