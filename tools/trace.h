// `gradwire trace`: one file of the traces of all workers.
#pragma once

#include <string>

namespace gradwire::tools {

enum class Runs { newest, all };

// How many files and events, and what of earlier runs was left out.
struct MergedTraces {
  size_t files = 0;
  size_t events = 0;
  size_t earlier_runs = 0;
  size_t earlier_files = 0;
};
// Workers belong to one run if their times overlap, directly or by way of others. Throws std::runtime_error if there
// are no traces, or the file cannot be written.
MergedTraces merge_traces(const std::string& folder, const std::string& output, Runs runs = Runs::newest);

}  // namespace gradwire::tools
