#include "gradwire/rpc/trace.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <c10/util/Logging.h>
#include <fmt/format.h>

#include "gradwire/base/error.h"
#include "gradwire/net/private_path.h"

namespace gradwire {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out;
}

}  // namespace

std::shared_ptr<Trace> Trace::of(const std::string& worker, int rank, Incarnation incarnation) {
  const char* folder = std::getenv("GRADWIRE_TRACE");
  if (folder == nullptr || *folder == 0) return nullptr;
  std::error_code failed;
  if (std::filesystem::create_directory(folder, failed))
    LOG(WARNING) << "gradwire: made the folder " << folder << " for traces, as GRADWIRE_TRACE says";
  if (failed)
    throw InvalidArgumentError(fmt::format(
        "GRADWIRE_TRACE is a folder for traces, and {} cannot be made: {}. The folder that it lies in must exist",
        folder, failed.message()));
  net::require_safe_folder(folder, "the folder of traces (GRADWIRE_TRACE)");
  const std::string path = fmt::format("{}/{}-{:016x}.trace", folder, worker, static_cast<uint64_t>(incarnation));
  // x: a new file, through no link that someone else laid.
  std::FILE* file = std::fopen(path.c_str(), "wxe");
  if (file == nullptr)
    throw InvalidArgumentError(
        fmt::format("cannot write the trace {}: {}; GRADWIRE_TRACE is a folder", path, std::strerror(errno)));
  std::shared_ptr<Trace> trace(new Trace(file, rank));
  trace->write(
      fmt::format("{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"args\":{{\"name\":\"{1}\"}}}}\n"
                  "{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{0},\"args\":{{\"sort_index\":{0}}}}}\n",
                  rank, escaped(worker)));
  trace->mark("gradwire_begins");
  return trace;
}

Trace::Trace(std::FILE* file, int rank)
    : rank_(rank),
      began_(std::chrono::steady_clock::now()),
      began_in_microseconds_(
          std::chrono::duration<double, std::micro>(std::chrono::system_clock::now().time_since_epoch()).count()),
      file_(file),
      flushed_(began_) {}

Trace::~Trace() {
  mark("gradwire_ends");
  std::fclose(file_);
}

void Trace::mark(const char* name) {
  write(fmt::format("{{\"ph\":\"M\",\"name\":\"{}\",\"ts\":{:.3f},\"pid\":{},\"args\":{{}}}}\n", name,
                    microseconds(std::chrono::steady_clock::now()), rank_));
}

double Trace::microseconds(Time time) const {
  return began_in_microseconds_ + std::chrono::duration<double, std::micro>(time - began_).count();
}

void Trace::span(const char* category, std::string_view name, Time from, Time to, Flow flow, Id id) {
  const std::string text = escaped(name);
  const int thread = gettid();
  std::string lines = fmt::format(
      "{{\"ph\":\"X\",\"cat\":\"{0}\",\"name\":\"{0} {1}\",\"ts\":{2:.3f},\"dur\":{3:.3f},\"pid\":{4},\"tid\":{5}}}\n",
      category, text, microseconds(from), std::chrono::duration<double, std::micro>(to - from).count(), rank_, thread);
  if (flow != Flow::none)
    lines += fmt::format(
        "{{\"ph\":\"{}\",\"bp\":\"e\",\"cat\":\"call\",\"name\":\"call\",\"id\":\"{}\",\"ts\":{:.3f},\"pid\":{},"
        "\"tid\":{}}}\n",
        static_cast<char>(flow), to_string(id), microseconds(from), rank_, thread);
  write(lines);
}

void Trace::stretch(const char* category, std::string_view name, Time from, Time to, Id id) {
  const std::string text = escaped(name);
  std::string lines;
  for (const auto& [phase, time] : {std::pair('b', from), std::pair('e', to)})
    lines += fmt::format(
        "{{\"ph\":\"{}\",\"cat\":\"{}\",\"name\":\"{} {}\",\"id\":\"{}\",\"ts\":{:.3f},\"pid\":{},\"tid\":{}}}\n",
        phase, category, category, text, to_string(id), microseconds(time), rank_, gettid());
  write(lines);
}

void Trace::write(std::string_view lines) {
  const Time now = std::chrono::steady_clock::now();
  MutexLock lock(mutex_);
  std::fwrite(lines.data(), 1, lines.size(), file_);
  if (now - flushed_ < std::chrono::seconds(1)) return;
  std::fflush(file_);
  flushed_ = now;
}

}  // namespace gradwire
