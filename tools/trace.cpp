#include "tools/trace.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace gradwire::tools {

MergedTraces merge_traces(const std::string& folder, const std::string& output) {
  std::vector<std::filesystem::path> paths;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed))
    if (entry.path().extension() == ".trace") paths.push_back(entry.path());
  if (failed) throw std::runtime_error("cannot read the folder " + folder + ": " + failed.message());
  if (paths.empty())
    throw std::runtime_error("no traces in " + folder + ": run the workers with GRADWIRE_TRACE=" + folder);
  std::sort(paths.begin(), paths.end());

  MergedTraces merged{.files = paths.size()};
  std::ofstream out(output);
  out << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  for (const std::filesystem::path& path : paths) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      // The last line of a worker that was killed may be half there.
      if (line.size() < 2 || line.front() != '{' || line.back() != '}') continue;
      out << (merged.events++ == 0 ? "\n" : ",\n") << line;
    }
  }
  out << "\n]}\n";
  out.close();
  if (!out) throw std::runtime_error("cannot write " + output);
  return merged;
}

}  // namespace gradwire::tools
