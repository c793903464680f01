// How long things took, as counts in classes: cheap to record from any thread, exact to a fifth.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <utility>

namespace gradwire {

// What was recorded so far.
struct Latency {
  uint64_t count = 0;
  std::chrono::nanoseconds mean{};
  // Half of them, all but a hundredth, and all took at most so long.
  std::chrono::nanoseconds median{};
  std::chrono::nanoseconds p99{};
  std::chrono::nanoseconds longest{};
};

class LatencyCounts {
 public:
  void add(std::chrono::nanoseconds took) {
    const auto nanoseconds = static_cast<uint64_t>(std::max<int64_t>(took.count(), 0));
    counts_[class_of(nanoseconds)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  Latency read() const {
    std::array<uint64_t, classes> counts;
    Latency latency;
    for (size_t i = 0; i < classes; ++i) latency.count += counts[i] = counts_[i].load(std::memory_order_relaxed);
    if (latency.count == 0) return latency;
    latency.mean = std::chrono::nanoseconds(sum_.load(std::memory_order_relaxed) / latency.count);
    uint64_t below = 0;
    for (size_t i = 0; i < classes; ++i) {
      if (counts[i] == 0) continue;
      const uint64_t before = std::exchange(below, below + counts[i]);
      const std::chrono::nanoseconds limit(end_of(i));
      if (before * 2 < latency.count) latency.median = limit;
      if (before * 100 < latency.count * 99) latency.p99 = limit;
      latency.longest = limit;
    }
    return latency;
  }

 private:
  // Four to each power of two.
  static constexpr size_t classes = 4 * 64;
  static size_t class_of(uint64_t value) {
    if (value < 4) return value;
    const auto power = static_cast<size_t>(std::bit_width(value)) - 1;
    return 4 * (power - 1) + ((value >> (power - 2)) & 3U);
  }
  // The largest value of a class.
  static uint64_t end_of(size_t number) {
    if (number < 4) return number;
    const size_t power = number / 4 + 1;
    return (uint64_t{1} << power) + ((uint64_t{number % 4} + 1) << (power - 2)) - 1;
  }
  std::array<std::atomic<uint64_t>, classes> counts_{};
  std::atomic<uint64_t> sum_ = 0;
};

}  // namespace gradwire
