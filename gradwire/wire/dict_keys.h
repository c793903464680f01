// c10's dicts double their table until no key is far from its place, without a limit: some thirty keys that were chosen
// to collide, or thirty NaN, make one allocate until the process is killed. So keys that come from a peer are looked at
// before they are entered.
#pragma once

#include <span>

#include <ATen/core/ivalue.h>

namespace gradwire::wire {

// Whether a dict of these keys, all different, stays within a small multiple of their number.
[[nodiscard]] bool keys_spread(std::span<const c10::IValue> keys);

}  // namespace gradwire::wire
