// usage: rows [--floor] [ROW...]: measures the rows named, or all, and prints one line each: NAME VALUE UNIT
#include <cstdio>
#include <set>

#include <ATen/Parallel.h>

#include "gradwire/testing/processes.h"

#include "row.h"

int main(int argc, char** argv) {
  using namespace gradwire::bench;
  gradwire::testing::Processes::prepare();
  at::set_num_threads(1);
  std::set<std::string> wanted(argv + 1, argv + argc);
  const bool only_floor = wanted.erase("--floor") > 0;
  std::vector<Row> rows = only_floor ? floor_rows() : session_rows();
  if (!only_floor) {
    for (Row& row : call_rows()) rows.push_back(std::move(row));
    for (Row& row : group_rows()) rows.push_back(std::move(row));
    for (Row& row : reference_rows()) rows.push_back(std::move(row));
    for (Row& row : gradient_rows()) rows.push_back(std::move(row));
    for (Row& row : training_rows()) rows.push_back(std::move(row));
    for (Row& row : pipeline_rows()) rows.push_back(std::move(row));
  } else {
    for (Row& row : pipeline_floor_rows()) rows.push_back(std::move(row));
  }
  if (wanted.erase("--list") > 0) {
    for (const Row& row : rows) std::printf("%s %s\n", row.name.c_str(), row.unit.c_str());
    return 0;
  }
  for (const Row& row : rows) {
    if (!wanted.empty() && !wanted.contains(row.name)) continue;
    std::printf("%s %.6g %s\n", row.name.c_str(), row.measure(), row.unit.c_str());
    std::fflush(stdout);
  }
}
