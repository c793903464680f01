#include "tools/run_output.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include <climits>

namespace gradwire::tools {
namespace {

// Beyond it, workers wait until their output is read.
constexpr size_t most_waiting = size_t{1} << 20U;
// Beyond it, a line is cut: a worker that never ends a line must not fill the memory.
constexpr size_t longest_line = size_t{1} << 20U;

// Not red: that is for errors.
constexpr std::array colours = {"\033[36m", "\033[33m", "\033[32m", "\033[35m",
                                "\033[34m", "\033[96m", "\033[93m", "\033[95m"};
constexpr const char* plain = "\033[0m";

std::string make_prefix(const std::string& name, size_t rank, size_t longest_name, bool coloured) {
  const std::string brackets = "[" + name + "]";
  const std::string space(longest_name - std::min(longest_name, name.size()) + 1, ' ');
  if (!coloured) return brackets + space;
  return colours[rank % colours.size()] + brackets + plain + space;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

Sink::Sink(int file) : file_(file) {
  const char* terminal = std::getenv("TERM");
  coloured_ = ::isatty(file) == 1 && !is_set("NO_COLOR") && std::string_view(terminal ? terminal : "") != "dumb";
  struct stat about{};
  can_be_awaited_ =
      ::fstat(file, &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode) || ::isatty(file) == 1);
}

void Sink::add(std::string_view text) {
  if (!broken_) waiting_ += text;
}

void Sink::write() {
  size_t written = 0;
  while (written < waiting_.size()) {
    size_t count = waiting_.size() - written;
    if (can_be_awaited_) {
      // The file is shared with whoever started this program, so it stays a blocking one; a pipe that says it is ready
      // takes so much without waiting.
      pollfd ready{file_, POLLOUT, 0};
      if (::poll(&ready, 1, 0) != 1) break;
      count = std::min<size_t>(count, PIPE_BUF);
    }
    const ssize_t taken = ::write(file_, waiting_.data() + written, count);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0 && errno == EAGAIN) break;
    if (taken < 0) {
      broken_ = true;
      waiting_.clear();
      return;
    }
    written += static_cast<size_t>(taken);
  }
  waiting_.erase(0, written);
}

bool Sink::full() const { return waiting_.size() >= most_waiting; }

Lines::Lines(Sink& sink, const std::string& name, size_t rank, size_t longest_name, LastWords* heard)
    : sink_(sink), prefix_(make_prefix(name, rank, longest_name, sink.coloured())), heard_(heard) {}

void Lines::add(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    line_ += text.substr(0, end);
    if (end == std::string_view::npos && line_.size() < longest_line) return;
    end_line();
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

void Lines::finish() {
  if (!line_.empty()) end_line();
}

void Lines::end_line() {
  sink_.add(prefix_ + line_ + "\n");
  if (heard_ != nullptr) heard_->add(line_);
  line_.clear();
}

}  // namespace gradwire::tools
