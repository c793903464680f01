#include "gradwire/testing/simulated_loop.h"

#include <stdexcept>

#include <fmt/format.h>

namespace gradwire::testing {
namespace {

// Ten times what the longest schedule takes.
constexpr int most_steps = 1000000;

}  // namespace

void SimulatedLoop::after(net::Duration delay, Task task) {
  tasks_.emplace(std::pair(now_ + delay, random_()), std::move(task));
}

bool SimulatedLoop::step() {
  if (tasks_.empty()) return false;
  auto first = tasks_.begin();
  now_ = std::max(now_, first->first.first);
  Task task = std::move(first->second);
  tasks_.erase(first);
  task();
  return true;
}

bool SimulatedLoop::run_until(const std::function<bool()>& condition, net::Duration limit) {
  const net::Time end = now_ + limit;
  for (int steps = 0; !condition(); ++steps) {
    if (steps == most_steps)
      throw std::runtime_error(fmt::format("{} tasks ran, and what the test waits for has not come about", steps));
    if (tasks_.empty() || tasks_.begin()->first.first > end) {
      now_ = end;
      return condition();
    }
    step();
  }
  return true;
}

void SimulatedLoop::clear() {
  // What a dropped task held may leave new ones behind.
  while (!tasks_.empty()) std::exchange(tasks_, {}).clear();
}

void SimulatedLoop::run_for(net::Duration time) {
  run_until([] { return false; }, time);
}

}  // namespace gradwire::testing
