// Puts values one after the other into a payload.
#pragma once

#include <utility>

#include "gradwire/wire/bytes.h"
#include "gradwire/wire/depth.h"
#include "gradwire/wire/payload.h"
#include "gradwire/wire/travels.h"

namespace gradwire::wire {

// Used by one thread at a time.
class Encoder {
 public:
  template <class T>
  void put(const T& value) {
    if constexpr (check_travels<T>()) {
      if constexpr (ScalarOrEnum<T>) {
        Codec<T>::encode(*this, value);
      } else {
        Deeper deeper = go_deeper();
        size_t before = written();
        Codec<T>::encode(*this, value);
        // Every value takes a byte, a tensor or a rider, so that no count can exceed what is there.
        if (written() == before) {
          bytes_.put(uint8_t{0});
        }
      }
    }
  }

  // The number of values that follow.
  void put_count(size_t count) { bytes_.put(uint64_t{count}); }

  // Its elements are not copied yet.
  void put_tensor(at::Tensor tensor) { tensors_.push_back(std::move(tensor)); }

  // Never null.
  void put_rider(std::shared_ptr<Rider> rider) { riders_.push_back(std::move(rider)); }

  ByteWriter& bytes() { return bytes_; }

  // For what recurses without put: throws InvalidArgumentError past max_depth.
  [[nodiscard]] Deeper go_deeper() {
    return Deeper(depth_, [] { refuse_depth(); });
  }

  [[nodiscard]] Payload take() { return {bytes_.take(), std::exchange(tensors_, {}), std::exchange(riders_, {})}; }

 private:
  [[noreturn]] static void refuse_depth();
  size_t written() const { return bytes_.size() + tensors_.size() + riders_.size(); }

  ByteWriter bytes_;
  std::vector<at::Tensor> tensors_;
  std::vector<std::shared_ptr<Rider>> riders_;
  int depth_ = 0;
};

}  // namespace gradwire::wire
