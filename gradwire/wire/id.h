// Ids in the bytes of a message.
#pragma once

#include "gradwire/base/id.h"
#include "gradwire/wire/bytes.h"

namespace gradwire::wire {

inline void put_id(ByteWriter& to, const Id& id) {
  to.put(id.maker);
  to.put(id.counter);
}

inline Id take_id(ByteReader& from) {
  Id id;
  id.maker = from.take<Incarnation>();
  id.counter = from.take<uint64_t>();
  return id;
}

}  // namespace gradwire::wire
