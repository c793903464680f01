// The last lines that a worker wrote to stderr: where the reason for its end stands, if it gave one. One thread.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace gradwire::tools {

class LastWords {
 public:
  void add(std::string_view line);
  // The text of the exception that ended a C++ program, however many lines it has; else the last line that is not
  // empty, which is where Python puts its error. Empty if the worker wrote nothing.
  std::string error() const;
  void clear() { lines_.clear(); }

 private:
  std::deque<std::string> lines_;
};

}  // namespace gradwire::tools
