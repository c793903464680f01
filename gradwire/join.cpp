// Where the layers meet: a worker that joins has all of them.
#include <cstdio>
#include <cstdlib>

#include "gradwire/autograd/context.h"
#include "gradwire/autograd/contexts.h"
#include "gradwire/nn/module_reference.h"
#include "gradwire/optim/local_optimizer.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/rref/fetch.h"
#include "gradwire/rref/references.h"

namespace gradwire {
namespace {

// Under `gradwire run` stdout is a pipe, which the C library buffers by blocks: the last lines of a worker that is
// killed would be lost.
void buffer_output_by_line_under_gradwire_run() {
  if (std::getenv("GRADWIRE_RESTART") == nullptr) return;
  std::fflush(stdout);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

}  // namespace

std::unique_ptr<Worker> Worker::join(const Registry& registry, WorkerOptions options) {
  buffer_output_by_line_under_gradwire_run();
  Registry with_layers = registry;
  with_layers.add_passenger([](const PassengerPlace& place) {
    return References::make(
        {.loop = place.runtime, .runtime = place.runtime, .exchange = place.exchange, .core = place.core});
  });
  add_fetch(with_layers);
  with_layers.add_passenger([](const PassengerPlace& place) {
    return autograd::Contexts::make({.runtime = place.runtime, .exchange = place.exchange, .core = place.core});
  });
  autograd::add_backward(with_layers);
  autograd::add_graph(with_layers);
  optim::add_optimizer(with_layers);
  nn::add_modules(with_layers);
  with_layers.hide_since(registry);
  return std::unique_ptr<Worker>(new Worker(WorkerCore::join(with_layers, std::move(options)), true));
}

}  // namespace gradwire
