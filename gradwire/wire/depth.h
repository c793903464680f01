// How deep values may nest. Encoders and decoders recurse, and a stack overflow cannot be caught.
#pragma once

namespace gradwire::wire {

inline constexpr int max_depth = 64;

// One level deeper, while it lives. `Refuse` is called, and throws, past the limit.
class Deeper {
 public:
  template <class Refuse>
  Deeper(int& depth, Refuse refuse) : depth_(depth) {
    if (depth_ >= max_depth) {
      refuse();
    }
    ++depth_;
  }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

}  // namespace gradwire::wire
