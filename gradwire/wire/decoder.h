// Takes values, one after the other, out of a payload that may come from a broken or hostile peer.
#pragma once

#include <algorithm>
#include <utility>

#include "gradwire/wire/bytes.h"
#include "gradwire/wire/depth.h"
#include "gradwire/wire/payload.h"
#include "gradwire/wire/travels.h"

namespace gradwire::wire {

// Used by one thread at a time.
class Decoder {
 public:
  explicit Decoder(Payload payload);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  template <class T>
  T take() {
    if constexpr (check_travels<T>()) {
      if constexpr (ScalarOrEnum<T>) {
        return Codec<T>::decode(*this);
      } else {
        Deeper deeper = go_deeper();
        size_t before = remaining();
        T value = Codec<T>::decode(*this);
        if (remaining() == before) {
          take_nothing();
        }
        return value;
      }
    }
  }

  // The number of values that follow. There may be fewer, but not so few that a vector of them could not be begun:
  // reserve no more than reservable<T>(count).
  size_t take_count();

  template <class T>
  size_t reservable(size_t count) const {
    return std::min(count, bytes_.remaining() / sizeof(T) + tensors_left() + riders_left());
  }

  at::Tensor take_tensor();
  std::shared_ptr<Rider> take_rider();

  ByteReader& bytes() { return bytes_; }

  // For what recurses without take: throws MalformedError past max_depth.
  [[nodiscard]] Deeper go_deeper() {
    return Deeper(depth_, [this] { refuse_depth(); });
  }

  // Throws MalformedError if bytes, tensors or riders are left.
  void expect_end() const;

 private:
  [[noreturn]] void refuse_depth() const;
  void take_nothing();
  size_t tensors_left() const { return payload_.tensors.size() - next_tensor_; }
  size_t riders_left() const { return payload_.riders.size() - next_rider_; }
  size_t remaining() const { return bytes_.remaining() + tensors_left() + riders_left(); }

  Payload payload_;
  ByteReader bytes_;
  size_t next_tensor_ = 0;
  size_t next_rider_ = 0;
  int depth_ = 0;
};

}  // namespace gradwire::wire
