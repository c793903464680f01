// Gradients that cross workers.
//
//   gradwire::autograd::Context context(*worker);                  // current for this thread until destroyed
//   auto hidden = encoder.call(&Net::forward, x).get();
//   auto loss = torch::nll_loss(decoder.call(&Net::forward, hidden).get(), target);
//   context.backward(loss);
//   torch::Tensor g = context.gradient(w);                         // of a leaf that lives here
//
// Under a context, and with grad mode on, tensors that travel stay differentiable: calls, self calls, references. The
// functions that are called run under the same context, at any depth, their Tasks and continuations too. Gradients are
// kept in the context, on the worker where the leaf lives; `.grad` is never touched.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "gradwire/autograd/step_graph.h"
#include "gradwire/base/id.h"
#include "gradwire/rpc/worker.h"
#include "gradwire/rref/rref.h"

namespace gradwire::autograd {

class Frame;

enum class Mode {
  // Only what the roots depend on takes part, and nothing is sent for the rest.
  smart,
  // Every message sent under the context takes part: there is no plan to make. If the roots do not depend on one, the
  // pass ends in a TimeoutError.
  fast,
};

struct BackwardOptions {
  // One for each root; without, each root is a scalar and its gradient is 1.
  std::vector<at::Tensor> gradients{};
  bool retain_graph = false;
  // The gradients can be differentiated again, in the same context.
  bool create_graph = false;
  Mode mode = Mode::smart;
  // The worker's call_timeout if there is none; Worker::no_timeout for no limit.
  std::optional<std::chrono::milliseconds> timeout{};
};

// A context that someone else owns, as seen from this worker. It stays as long as this does. Copyable; any thread.
class ContextView {
 public:
  // The same on all workers.
  Id id() const;
  // Returns when all gradients, on all workers, are in their contexts. Throws what fails, with the worker in the text;
  // the gradients of this context are partial then, and reading them throws the same.
  void backward(const at::Tensor& root, const BackwardOptions& options = {}) const;
  void backward(const std::vector<at::Tensor>& roots, const BackwardOptions& options = {}) const;
  // The pass begins at the owner.
  void backward(const RRef<at::Tensor>& root, const BackwardOptions& options = {}) const;

  // Of a leaf that lives on this worker; undefined if there is none.
  at::Tensor gradient(const at::Tensor& leaf) const;
  // All of this worker: leaf and gradient.
  std::vector<std::pair<at::Tensor, at::Tensor>> gradients() const;

  // At the worker that made it: the graph of what was sent under it, on all workers, and of these tensors of this one.
  StepGraph graph(const std::vector<at::Tensor>& roots = {}) const;

 private:
  friend class Context;
  friend class ContextGuard;
  explicit ContextView(std::shared_ptr<Frame> frame) : frame_(std::move(frame)) {}
  std::shared_ptr<Frame> frame_;
};

// Made by one worker for one step; ended when it is destroyed and the calls and passes under it are over.
class Context : public ContextView {
 public:
  // Current for this thread until it is destroyed, which this thread does.
  explicit Context(Worker& worker);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // The one that is current here. Throws NotFoundError if there is none.
  static ContextView current();
  static bool has_current();
  // Throws NotFoundError if the worker does not know it, or it has ended.
  static ContextView find(Worker& worker, Id id);

 private:
  // Not held: whatever is destroyed first, each context ends with its own object.
  std::weak_ptr<void> before_;
};

// Makes a context current on a further thread, for a while.
class ContextGuard {
 public:
  explicit ContextGuard(const ContextView& context);
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  std::shared_ptr<void> before_;
};

// For Worker::join.
void add_backward(Registry& registry);
void add_graph(Registry& registry);

}  // namespace gradwire::autograd
