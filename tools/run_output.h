// The output of the workers, line by line, each with its worker's name before it. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tools/run_last_words.h"

namespace gradwire::tools {

// Where output goes: this process's stdout or stderr. What cannot be written at once is kept, so that nobody waits for
// a slow reader but those whose output it is.
class Sink {
 public:
  explicit Sink(int file);

  int file() const { return file_; }
  // Whether names may be coloured: a terminal, and neither NO_COLOR nor TERM=dumb.
  bool coloured() const { return coloured_; }

  void add(std::string_view text);
  // Writes what can be written without waiting.
  void write();
  // Nobody reads any more, or there is no room: all that is added is dropped.
  bool broken() const { return broken_; }
  bool empty() const { return waiting_.empty(); }
  // So much is kept that no more should be added.
  bool full() const;
  void drop() { waiting_.clear(); }

 private:
  const int file_;
  bool coloured_ = false;
  bool can_be_awaited_ = false;  // if not (a file), writing never stops early
  bool broken_ = false;
  std::string waiting_;
};

// Cuts what a worker writes into lines. A last line that was not ended is kept, and ended by `finish`.
class Lines {
 public:
  // `heard`, if there is one, gets each line too.
  Lines(Sink& sink, const std::string& name, size_t rank, size_t longest_name, LastWords* heard = nullptr);

  void add(std::string_view text);
  void finish();

 private:
  void end_line();

  Sink& sink_;
  const std::string prefix_;
  LastWords* const heard_;
  std::string line_;
};

}  // namespace gradwire::tools
