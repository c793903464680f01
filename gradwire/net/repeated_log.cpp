#include "gradwire/net/repeated_log.h"

#include <utility>

#include <c10/util/Logging.h>
#include <fmt/format.h>

namespace gradwire::net {
namespace {

constexpr auto counted_for = std::chrono::minutes(1);
// A program that makes up names must not fill the memory: what is beyond is counted as one kind.
constexpr size_t most_kinds = 1000;
constexpr const char* other_kinds = "lines of other kinds";

}  // namespace

std::shared_ptr<RepeatedLog> RepeatedLog::make(Write write) {
  if (!write) write = [](const std::string& line) { LOG(WARNING) << "gradwire: " << line; };
  return std::shared_ptr<RepeatedLog>(new RepeatedLog(std::move(write)));
}

RepeatedLog::~RepeatedLog() { write_counts(); }

void RepeatedLog::add(Loop& loop, const std::string& kind, const std::string& detail) {
  MutexLock lock(mutex_);
  auto found = unwritten_.find(kind);
  if (found == unwritten_.end()) {
    if (unwritten_.size() < most_kinds) {
      unwritten_.emplace(kind, 0);
      return write_(fmt::format("{}: {}", kind, detail));
    }
    found = unwritten_.try_emplace(other_kinds, 0).first;
  }
  ++found->second;
  if (std::exchange(timed_, true)) return;
  loop.after(counted_for, [weak = weak_from_this()] {
    if (const std::shared_ptr<RepeatedLog> self = weak.lock()) self->write_counts();
  });
}

size_t RepeatedLog::kinds() {
  MutexLock lock(mutex_);
  return unwritten_.size();
}

void RepeatedLog::write_counts() {
  MutexLock lock(mutex_);
  timed_ = false;
  for (auto& [kind, count] : unwritten_)
    if (const uint64_t more = std::exchange(count, 0); more > 0) write_(fmt::format("{}: {} more times", kind, more));
}

}  // namespace gradwire::net
