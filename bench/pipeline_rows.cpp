// Rows of the pipeline of examples/pipeline.cpp: a step over two workers, and its floor, the same step in one process.
#include "../examples/pipeline_model.h"
#include "processes.h"
#include "row.h"

namespace gradwire::bench {
namespace {

// bench/torch_rpc/pipeline.py has the same.
struct Size {
  const char* name;
  int hidden;
  int rows;
  int steps;
};
constexpr Size sizes[] = {{"small", 512, 256, 200}, {"medium", 2048, 1024, 30}, {"large", 8192, 1024, 9}};

Registry make_registry() {
  Registry registry;
  pipeline::register_stage(registry);
  return registry;
}

double milliseconds_of_a_step(const Size& size, const std::function<void(const at::Tensor&)>& step) {
  int count = 0;
  return 1e3 * median_seconds(size.steps, [&] { step(pipeline::input(count++, size.rows)); });
}

double two_workers(const Size& size) {
  const GroupOfProcesses<make_registry> group(2);
  pipeline::TwoWorkers model(*group.worker, group.worker->peer(1), group.worker->peer(2), size.hidden);
  return milliseconds_of_a_step(size, [&](const at::Tensor& x) { model.step(x, true); });
}

double one_process(const Size& size) {
  pipeline::OneProcess model(size.hidden);
  return milliseconds_of_a_step(size, [&](const at::Tensor& x) { model.step(x); });
}

std::vector<Row> rows_with(double (*measure)(const Size&)) {
  std::vector<Row> rows;
  for (const Size& size : sizes)
    rows.push_back({std::string("example.pipeline.") + size.name, "ms", [=] { return measure(size); }});
  return rows;
}

}  // namespace

std::vector<Row> pipeline_rows() { return rows_with(two_workers); }
std::vector<Row> pipeline_floor_rows() { return rows_with(one_process); }

}  // namespace gradwire::bench
