// What a launcher waits for: files that become ready, in the order in which they did, and moments. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "gradwire/net/descriptor.h"

namespace gradwire::tools {

class Events {
 public:
  using Clock = std::chrono::steady_clock;
  using Watch = uint64_t;  // 0: none

  Events();

  // `events` as epoll takes them. The action runs in `wait`, as long as the watch is there and the file is ready.
  Watch watch(int file, uint32_t events, std::function<void()> action);
  // Before the file is closed. Of none: nothing.
  void unwatch(Watch& watch);
  // Waits until something is ready or the moment has come, and acts.
  void wait(std::optional<Clock::time_point> until);

 private:
  struct Watched {
    int file;
    std::function<void()> action;
  };
  const net::Descriptor poller_;
  Watch last_ = 0;
  std::map<Watch, Watched> watched_;
};

}  // namespace gradwire::tools
