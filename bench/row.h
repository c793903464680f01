// A row of the bench: its name, its unit and how it is measured. Programs print "NAME VALUE UNIT" for the rows asked
// for; bench/run puts ours, torch's and the floor side by side.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace gradwire::bench {

struct Row {
  std::string name;
  std::string unit;
  std::function<double()> measure;
};

std::vector<Row> floor_rows();
std::vector<Row> session_rows();
std::vector<Row> call_rows();
std::vector<Row> group_rows();
std::vector<Row> reference_rows();
std::vector<Row> gradient_rows();
std::vector<Row> training_rows();
std::vector<Row> pipeline_rows();
std::vector<Row> pipeline_floor_rows();

inline double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

// After some runs that do not count.
inline double median_seconds(int repeats, const std::function<void()>& body) {
  for (int i = 0; i < repeats / 10 + 3; ++i) body();
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) seconds.push_back(seconds_of(body));
  return median(std::move(seconds));
}

}  // namespace gradwire::bench
