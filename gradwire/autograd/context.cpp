#include "gradwire/autograd/context.h"

#include <ATen/ops/ones_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gradwire/autograd/contexts.h"
#include "gradwire/autograd/passes.h"
#include "gradwire/rpc/worker_core.h"

namespace gradwire::autograd {
namespace {

constexpr Function<void(RRef<at::Tensor>, at::Tensor, bool, bool, bool, int64_t)> backward_at_owner{"Context.backward"};
constexpr std::chrono::milliseconds margin = std::chrono::seconds(1);

// The gradient that a pass begins with.
at::Tensor seed(const at::Tensor& root, const at::Tensor& given) {
  if (!given.defined()) {
    if (root.numel() != 1)
      throw InvalidArgumentError(fmt::format(
          "backward of a root of shape [{}]: only that of a scalar needs no gradient; sum() it, or give one "
          "in BackwardOptions::gradients",
          fmt::join(root.sizes(), ", ")));
    return at::ones_like(root, at::TensorOptions(), at::MemoryFormat::Preserve);
  }
  if (given.sizes() != root.sizes() || given.dtype() != root.dtype())
    throw InvalidArgumentError(fmt::format(
        "backward of a root of shape [{}] and type {} with a gradient of shape [{}] and type {}: they must be the same",
        fmt::join(root.sizes(), ", "), root.dtype().name(), fmt::join(given.sizes(), ", "), given.dtype().name()));
  return given;
}

std::shared_ptr<Contexts> contexts_of(const Frame& frame) {
  std::shared_ptr<Contexts> contexts = frame.context->contexts();
  if (!contexts) throw InvalidArgumentError("the worker of this context is gone: join again");
  return contexts;
}

std::chrono::milliseconds limit_of(const Contexts& contexts, const BackwardOptions& options) {
  const std::shared_ptr<WorkerCore> core = contexts.place().core.lock();
  if (!core) throw InvalidArgumentError("the worker of this context is gone: join again");
  return options.timeout.value_or(core->options().call_timeout);
}

}  // namespace

Id ContextView::id() const { return frame_->context->id(); }

void ContextView::backward(const at::Tensor& root, const BackwardOptions& options) const {
  backward(std::vector<at::Tensor>{root}, options);
}

void ContextView::backward(const std::vector<at::Tensor>& roots, const BackwardOptions& options) const {
  net::Runtime::require_threads();
  if (roots.empty()) throw InvalidArgumentError("backward without a root: give one or more");
  if (!options.gradients.empty() && options.gradients.size() != roots.size())
    throw InvalidArgumentError(fmt::format("backward of {} roots with {} gradients: give one for each, or none",
                                           roots.size(), options.gradients.size()));
  const std::shared_ptr<Contexts> contexts = contexts_of(*frame_);
  Passes::Request request{.roots = roots,
                          .gradients = {},
                          .options = {.retain_graph = options.retain_graph || options.create_graph,
                                      .create_graph = options.create_graph,
                                      .fast = options.mode == Mode::fast},
                          .timeout = limit_of(*contexts, options)};
  for (size_t i = 0; i < roots.size(); ++i) {
    if (!roots[i].defined()) throw InvalidArgumentError(fmt::format("root {} of backward is undefined", i));
    if (!roots[i].requires_grad())
      throw InvalidArgumentError(fmt::format(
          "root {} of backward does not require grad: it depends on no parameter, or was made under no_grad, "
          "or comes from a call that was made before the Context was. Make the Context first, and the calls under it",
          i));
    request.gradients.push_back(seed(roots[i], options.gradients.empty() ? at::Tensor() : options.gradients[i]));
  }
  contexts->passes().backward(frame_, request);
}

void ContextView::backward(const RRef<at::Tensor>& root, const BackwardOptions& options) const {
  if (options.gradients.size() > 1)
    throw InvalidArgumentError("backward of one reference with several gradients: give one, or none");
  if (root.is_owner()) return backward(root.local(), options);
  const ContextGuard guard(*this);
  const std::chrono::milliseconds limit = limit_of(*contexts_of(*frame_), options);
  const bool limited = limit < std::chrono::milliseconds::max() - margin;
  Peer owner = root.owner().with_timeout(Peer::no_timeout);
  if (limited) owner = owner.with_timeout(limit + margin);  // the owner's own error comes first
  owner
      .call(backward_at_owner, root, options.gradients.empty() ? at::Tensor() : options.gradients[0],
            options.retain_graph, options.create_graph, options.mode == Mode::fast, static_cast<int64_t>(limit.count()))
      .get();
}

void add_backward(Registry& registry) {
  registry.add(backward_at_owner, [](const RRef<at::Tensor>& root, const at::Tensor& gradient, bool retain_graph,
                                     bool create_graph, bool fast, int64_t limit) {
    BackwardOptions options{.retain_graph = retain_graph,
                            .create_graph = create_graph,
                            .mode = fast ? Mode::fast : Mode::smart,
                            .timeout = std::chrono::milliseconds(limit)};
    if (gradient.defined()) options.gradients = {gradient};
    Context::current().backward(root.local(), options);
  });
}

at::Tensor ContextView::gradient(const at::Tensor& leaf) const {
  if (!leaf.defined()) throw InvalidArgumentError("the gradient of an undefined tensor");
  if (!leaf.is_leaf())
    throw InvalidArgumentError(
        "the gradient of a tensor that is not a leaf: contexts keep those of leaves; use "
        "retain_grad() for others");
  return frame_->context->gradient(leaf);
}

std::vector<std::pair<at::Tensor, at::Tensor>> ContextView::gradients() const { return frame_->context->gradients(); }

Context::Context(Worker& worker)
    : ContextView((net::Runtime::require_threads(), Contexts::of(WorkerAccess::core(worker))->create())),
      before_(std::exchange(Surroundings::here().context, frame_)) {}

Context::~Context() {
  std::shared_ptr<void>& here = Surroundings::here().context;
  if (here == frame_) here = before_.lock();
  const std::shared_ptr<ContextState> context = frame_->context;
  const std::shared_ptr<Contexts> contexts = context->contexts();
  // If nothing else holds it, what it kept is destroyed here, rather than by another thread.
  context->hold();
  frame_.reset();
  if (context->let_go() && contexts) contexts->release(context);
}

ContextView Context::current() {
  auto frame = std::static_pointer_cast<Frame>(Surroundings::here().context);
  if (!frame)
    throw NotFoundError(
        "no context is current here: make a Context, bind one with a ContextGuard, or call this in a function that was "
        "called under one");
  return ContextView(std::move(frame));
}

bool Context::has_current() { return Surroundings::here().context != nullptr; }

ContextView Context::find(Worker& worker, Id id) {
  std::shared_ptr<Frame> frame = Contexts::of(WorkerAccess::core(worker))->find(id);
  if (!frame)
    throw NotFoundError(
        fmt::format("{} does not know the context {}: it has ended, or nothing was called here under it", worker.name(),
                    to_string(id)),
        worker.name());
  return ContextView(std::move(frame));
}

ContextGuard::ContextGuard(const ContextView& context)
    : before_(std::exchange(Surroundings::here().context, context.frame_)) {}

ContextGuard::~ContextGuard() { Surroundings::here().context = std::move(before_); }

}  // namespace gradwire::autograd
