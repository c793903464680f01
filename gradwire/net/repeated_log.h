// Log lines that may come in masses: the first of each kind is written at once, the others are counted, and the counts
// are written once a minute.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "gradwire/base/mutex.h"
#include "gradwire/net/loop.h"

namespace gradwire::net {

// Any thread.
class RepeatedLog : public std::enable_shared_from_this<RepeatedLog> {
 public:
  using Write = std::function<void(const std::string& line)>;
  // Writes warnings to the log; tests write elsewhere.
  static std::shared_ptr<RepeatedLog> make(Write write = nullptr);
  // Writes the counts that are due.
  ~RepeatedLog();
  RepeatedLog(const RepeatedLog&) = delete;
  RepeatedLog& operator=(const RepeatedLog&) = delete;

  // `kind` is the beginning of the line and is what is counted, `detail` its end.
  void add(Loop& loop, const std::string& kind, const std::string& detail) GRADWIRE_EXCLUDES(mutex_);
  // How many kinds were written so far.
  size_t kinds() GRADWIRE_EXCLUDES(mutex_);

 private:
  explicit RepeatedLog(Write write) : write_(std::move(write)) {}
  void write_counts() GRADWIRE_EXCLUDES(mutex_);

  Mutex mutex_;
  const Write write_;
  std::map<std::string, uint64_t> unwritten_ GRADWIRE_GUARDED_BY(mutex_);  // by kind
  bool timed_ GRADWIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace gradwire::net
