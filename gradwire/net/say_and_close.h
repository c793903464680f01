// The last frame on a connection that is not, or not yet, a session's link: written as far as the link takes it at
// once.
#pragma once

#include <string_view>

#include "gradwire/net/link.h"

namespace gradwire::net {

inline void say_and_close(Link& link, std::string_view frame) {
  const iovec buffer{const_cast<char*>(frame.data()), frame.size()};
  link.write({&buffer, 1}, {});
  link.close();
}

}  // namespace gradwire::net
