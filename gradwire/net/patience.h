// When somebody who waits says for whom: after three seconds, then every ten.
#pragma once

#include <chrono>

namespace gradwire::net {

// One thread at a time.
class Patience {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // When the next word is due.
  Time next() const { return next_; }
  // True when it is; the one after it is then ten seconds away.
  bool is_over() {
    const Time now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + std::chrono::seconds(10);
    return true;
  }

 private:
  Time next_ = std::chrono::steady_clock::now() + std::chrono::seconds(3);
};

}  // namespace gradwire::net
