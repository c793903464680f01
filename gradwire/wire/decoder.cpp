#include "gradwire/wire/decoder.h"

#include <fmt/format.h>

namespace gradwire::wire {

// Not inline: where gcc 12 sees the string move, it warns of uninitialized bytes in every user's decode.
Decoder::Decoder(Payload payload) : payload_(std::move(payload)), bytes_(payload_.bytes) {}

size_t Decoder::take_count() {
  auto count = bytes_.take<uint64_t>();
  if (count > remaining()) {
    bytes_.fail(fmt::format("{} values are announced, {} bytes and {} tensors are left", count, bytes_.remaining(),
                            tensors_left()));
  }
  return count;
}

at::Tensor Decoder::take_tensor() {
  if (tensors_left() == 0) {
    bytes_.fail(fmt::format("a tensor is wanted, all {} are taken", payload_.tensors.size()));
  }
  return std::move(payload_.tensors[next_tensor_++]);
}

std::shared_ptr<Rider> Decoder::take_rider() {
  if (riders_left() == 0) {
    bytes_.fail(fmt::format("a reference is wanted, all {} are taken", payload_.riders.size()));
  }
  return std::move(payload_.riders[next_rider_++]);
}

void Decoder::expect_end() const {
  bytes_.expect_end("the values");
  if (tensors_left() != 0) {
    bytes_.fail(fmt::format("{} tensors are left over after the values", tensors_left()));
  }
  if (riders_left() != 0) {
    bytes_.fail(fmt::format("{} references are left over after the values", riders_left()));
  }
}

void Decoder::refuse_depth() const { bytes_.fail(fmt::format("values are nested more than {} deep", max_depth)); }

void Decoder::take_nothing() {
  if (bytes_.take<uint8_t>() != 0) {
    bytes_.fail("an empty value is one byte of 0");
  }
}

}  // namespace gradwire::wire
