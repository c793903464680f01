// `gradwire trace`: one file of the traces of all workers.
#pragma once

#include <string>

namespace gradwire::tools {

// How many files and events. Throws std::runtime_error if there are none, or the file cannot be written.
struct MergedTraces {
  size_t files = 0;
  size_t events = 0;
};
MergedTraces merge_traces(const std::string& folder, const std::string& output);

}  // namespace gradwire::tools
