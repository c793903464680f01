// A proxy in front of a Unix socket, that hurts what passes: it cuts connections after so many bytes, delays, and lets
// them hang half-open. Real links between real processes are tested through it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace gradwire::testing {

struct ProxyFaults {
  // How many bytes a new connection passes, both ways together, before it is cut. Drawn anew for each.
  std::function<uint64_t()> bytes_until_cut = [] { return UINT64_MAX; };
  // Whether a connection that is to be cut hangs instead, half-open: both ends stay, and nothing passes any more.
  std::function<bool()> hangs = [] { return false; };
  // How long each piece is held back, in microseconds.
  std::function<uint64_t()> delay = [] { return 0; };
};

// Runs on a thread of its own from construction to destruction. Descriptors do not pass: only bytes do.
class Proxy {
 public:
  // Listens at `path` and connects to `target` for each connection.
  Proxy(std::string path, std::string target, ProxyFaults faults);
  ~Proxy();
  uint64_t connections() const { return connections_; }
  // From now on nothing is hurt.
  void calm() { calm_ = true; }

 private:
  void run();
  const std::string path_;
  const std::string target_;
  const ProxyFaults faults_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> calm_ = false;
  std::atomic<uint64_t> connections_ = 0;
  std::thread thread_;
};

}  // namespace gradwire::testing
