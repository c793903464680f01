#include "tools/trace.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gradwire::tools {

namespace {

struct WorkerTrace {
  std::filesystem::path path;
  // In microseconds, by the host's clock; 0 if the file does not say.
  double begins = 0;
  double ends = 0;
};

// The last line of a worker that was killed may be half there.
bool whole(const std::string& line) { return line.size() >= 2 && line.front() == '{' && line.back() == '}'; }

double number_after(const std::string& line, const char* key) {
  const size_t found = line.find(key);
  return found == std::string::npos ? 0 : std::strtod(line.c_str() + found + std::strlen(key), nullptr);
}

WorkerTrace look_at(const std::filesystem::path& path) {
  WorkerTrace trace{.path = path};
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const double at = whole(line) ? number_after(line, "\"ts\":") : 0;
    if (at == 0) continue;
    trace.begins = trace.begins == 0 ? at : std::min(trace.begins, at);
    trace.ends = std::max(trace.ends, at + number_after(line, "\"dur\":"));
  }
  return trace;
}

std::vector<WorkerTrace> traces_in(const std::string& folder) {
  std::vector<WorkerTrace> traces;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed))
    if (entry.path().extension() == ".trace") traces.push_back(look_at(entry.path()));
  if (failed) throw std::runtime_error("cannot read the folder " + folder + ": " + failed.message());
  if (traces.empty())
    throw std::runtime_error("no traces in " + folder + ": run the workers with GRADWIRE_TRACE=" + folder);
  return traces;
}

// Where the newest run begins in traces that are sorted by their beginning, and how many runs there are.
std::pair<size_t, size_t> newest_run(const std::vector<WorkerTrace>& traces) {
  size_t first = 0, runs = 1;
  double ends = traces.front().ends;
  for (size_t i = 1; i < traces.size(); ++i) {
    if (traces[i].begins > ends) {
      first = i;
      ++runs;
    }
    ends = std::max(ends, traces[i].ends);
  }
  return {first, runs};
}

}  // namespace

MergedTraces merge_traces(const std::string& folder, const std::string& output, Runs runs) {
  std::vector<WorkerTrace> traces = traces_in(folder);
  MergedTraces merged;
  if (runs == Runs::newest) {
    std::sort(traces.begin(), traces.end(),
              [](const WorkerTrace& a, const WorkerTrace& b) { return a.begins < b.begins; });
    const auto [first, count] = newest_run(traces);
    merged.earlier_runs = count - 1;
    merged.earlier_files = first;
    traces.erase(traces.begin(), traces.begin() + static_cast<std::ptrdiff_t>(first));
  }
  std::sort(traces.begin(), traces.end(), [](const WorkerTrace& a, const WorkerTrace& b) { return a.path < b.path; });
  merged.files = traces.size();

  std::ofstream out(output);
  out << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  for (const WorkerTrace& trace : traces) {
    std::ifstream in(trace.path);
    for (std::string line; std::getline(in, line);)
      if (whole(line)) out << (merged.events++ == 0 ? "\n" : ",\n") << line;
  }
  out << "\n]}\n";
  out.close();
  if (!out) throw std::runtime_error("cannot write " + output);
  return merged;
}

}  // namespace gradwire::tools
