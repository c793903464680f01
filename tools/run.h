// `gradwire run`: the workers of a group on this host, from their start to the end of the last one.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace gradwire::tools {

struct RunOptions {
  std::vector<std::string> names;  // of the workers, by rank
  std::vector<std::string> command;
  int restarts = 0;   // of all workers together
  std::string store;  // the file where the workers meet; empty: one of this run's own
  // A worker that fails ends nobody else.
  bool keep_going = false;
  std::chrono::milliseconds grace = std::chrono::seconds(5);
};

// The exit code: 0 when every worker ended well, else that of the first one that failed. When a signal to the launcher
// ended the run, ends this process by that signal, as shells expect of it. Throws std::runtime_error in words when the
// workers cannot be started.
int run(const RunOptions& options);

}  // namespace gradwire::tools
