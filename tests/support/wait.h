// Waiting for a condition, with a bound: never a sleep of a guessed length.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace gradwire::testing {

// True as soon as the condition holds; false after a minute.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::steady_clock::duration limit = std::chrono::seconds(60)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return condition();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace gradwire::testing
