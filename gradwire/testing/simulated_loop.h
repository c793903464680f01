// A loop whose time and order are a test's own: tasks run when the test says so, one at a time on the test's thread,
// those that are due at one moment in an order drawn from a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include "gradwire/net/loop.h"

namespace gradwire::testing {

// One thread.
class SimulatedLoop : public net::Loop {
 public:
  explicit SimulatedLoop(uint64_t seed) : random_(seed) {}

  net::Time now() const override { return now_; }
  void post(Task task) override { after(net::Duration(0), std::move(task)); }
  void after(net::Duration delay, Task task) override;

  // Runs the next task, moving time on to it. False if there is none.
  bool step();
  // Steps until the condition holds, or until time has moved on by the limit. Returns the condition. Throws where tasks
  // make new ones without end, and time hardly moves.
  bool run_until(const std::function<bool()>& condition, net::Duration limit);
  void run_for(net::Duration time);
  // Time goes on and nothing runs, as in a process that was stopped.
  void sleep(net::Duration time) { now_ += time; }
  // Drops what has not run: tasks hold links, which hold their network, which holds this loop.
  void clear();
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
  net::Time now_{};
  // By time, then by a draw.
  std::multimap<std::pair<net::Time, uint64_t>, Task> tasks_;
};

}  // namespace gradwire::testing
