#include "gradwire/wire/dict_keys.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace gradwire::wire {

// Lays the keys out as the table (c10/util/order_preserving_flat_hash_map.h) does when it has eight places for each: it
// takes the upper bits of a multiple of the hash as the place, and the next free one if that is taken. If none is
// farther away than the table looks, it grows no further.
bool keys_spread(std::span<const c10::IValue> keys) {
  constexpr size_t fewest_places = 64;
  const size_t places = std::max(fewest_places, std::bit_ceil(8 * keys.size()));
  const int bits = std::countr_zero(places);
  std::vector<uint64_t> wanted;
  wanted.reserve(keys.size());
  for (const c10::IValue& key : keys) {
    wanted.push_back((11400714819323198485U * c10::detail::DictKeyHash()(key)) >> (64 - bits));
  }
  std::ranges::sort(wanted);
  uint64_t free = 0;
  return std::ranges::all_of(wanted, [&](uint64_t place) {
    free = std::max(free, place);
    return free++ - place < static_cast<uint64_t>(bits);
  });
}

}  // namespace gradwire::wire
