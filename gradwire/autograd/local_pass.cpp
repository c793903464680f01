#include "gradwire/autograd/local_pass.h"

#include <unordered_map>

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include "gradwire/base/error.h"

namespace gradwire::autograd {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::GraphTask;
using torch::autograd::InputBuffer;
using torch::autograd::Node;
using torch::autograd::variable_list;

namespace {

constexpr net::Duration between_looks = std::chrono::microseconds(100);

bool has_hooks(Node* accumulator) {
  return !accumulator->pre_hooks().empty() || !accumulator->post_hooks().empty() ||
         torch::autograd::impl::post_acc_grad_hooks(
             static_cast<torch::autograd::AccumulateGrad*>(accumulator)->variable) != nullptr;
}

// The engine wants an input for its root.
const at::Tensor& anything() {
  static const at::Tensor scalar = at::zeros({});
  return scalar;
}

// Which pass a graph task belongs to: nodes may not keep this, as several passes may run over one graph at once.
struct Running {
  Mutex mutex;
  std::unordered_map<int, LocalPass*> passes GRADWIRE_GUARDED_BY(mutex);
};
Running& all_running() {
  static auto* running = new Running;
  return *running;
}

}  // namespace

// What the engine starts from.
class LocalPass::RootNode final : public Node {
 public:
  RootNode() { add_input_metadata(anything()); }
  variable_list apply(variable_list&&) override { return std::move(gradients); }
  std::string name() const override { return "gradwire::RootNode"; }
  variable_list gradients;
};

// Never queued: evaluated when a gradient is there.
class LocalPass::ArrivalNode final : public Node {
 public:
  variable_list apply(variable_list&&) override { return std::move(gradients); }
  std::string name() const override { return "gradwire::ArrivalNode"; }
  variable_list gradients;
};

class LocalPass::PumpNode final : public Node {
 public:
  // The lowest sequence number: after everything else that can run.
  explicit PumpNode(LocalPass& pass) : Node(0), pass_(pass) { add_input_metadata(undefined_input()); }
  variable_list apply(variable_list&&) override {
    pass_.pump();
    return {};
  }
  std::string name() const override { return "gradwire::PumpNode"; }

 private:
  LocalPass& pass_;
};

// Lets torch's engine build the graph task, changes it before anything runs, and passes it on.
class PassEngine final : public Engine {
 public:
  static variable_list execute(LocalPass& pass, const NodePointer& root, const edge_list& outputs) {
    static auto* engine = new PassEngine;  // never destroyed: an engine's end waits for threads
    LocalPass* outer = std::exchange(current(), &pass);
    struct Restore {
      LocalPass* outer;
      ~Restore() { current() = outer; }
    } const restore{outer};
    const PassOptions& options = pass.pass_.options();
    return engine->Engine::execute({Edge(root, 0)}, {anything()}, options.retain_graph, options.create_graph,
                                   /*accumulate_grad=*/false, outputs);
  }

 private:
  PassEngine() = default;
  static LocalPass*& current() {
    thread_local LocalPass* pass = nullptr;
    return pass;
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(const std::shared_ptr<GraphTask>& task,
                                                                 NodePointer root, InputBuffer&& input) override {
    current()->prepare(task);
    return Engine::get_default_engine().execute_with_graph_task(task, std::move(root), std::move(input));
  }
};

LocalPass::LocalPass(Pass& pass, Host host) : pass_(pass), host_(std::move(host)) {}

LocalPass::~LocalPass() { forget_task(); }

void LocalPass::forget_task() {
  if (!task_) return;
  {
    MutexLock lock(all_running().mutex);
    all_running().passes.erase(static_cast<int>(task_->id_));
  }
  task_.reset();
}

LocalPass* LocalPass::running() {
  const int task = torch::autograd::get_current_graph_task_id();
  MutexLock lock(all_running().mutex);
  auto found = all_running().passes.find(task);
  return found == all_running().passes.end() ? nullptr : found->second;
}

void LocalPass::run(const edge_list& roots, const Tensors& gradients, Walk walk) {
  for (const auto& [hop, sent] : pass_.planned()) walk.from(sent.node.get());
  received_ = walk.received();
  edge_list outputs;
  for (Node* leaf : walk.leaves()) outputs.emplace_back(leaf->getptr(), 0);
  for (Node* received : walk.received()) outputs.emplace_back(received->getptr(), 0);
  if (outputs.empty()) return;

  auto root = make_node<RootNode>();
  for (size_t i = 0; i < roots.size(); ++i) {
    root->add_next_edge(roots[i]);
    root->gradients.push_back(gradients[i]);
  }
  while (std::optional<ArrivedGradient> gradient = pass_.take()) {
    const uint64_t hop = gradient->hop;
    there_.emplace(hop, unpack(*std::move(gradient)));
  }
  for (const auto& [hop, sent] : pass_.planned()) {
    const auto there = there_.find(hop);
    for (uint32_t i = 0; i < sent.node->num_inputs(); ++i) {
      root->add_next_edge(Edge(sent.node, i));
      root->gradients.push_back(there != there_.end() ? std::move(there->second[i]) : at::Tensor());
    }
  }
  pump_ = make_node<PumpNode>(*this);
  root->add_next_edge(Edge(pump_, 0));
  root->gradients.emplace_back();

  variable_list captured = PassEngine::execute(*this, root, outputs);
  if (!task_)
    throw InvalidArgumentError(
        "compiled autograd is on, and takes the place of the engine that passes over several workers need: switch it "
        "off "
        "(torch._dynamo.compiled_autograd) around Context::backward");
  // The task's result holds every gradient a second time. A context takes over only what nobody else holds.
  forget_task();
  // Users' hooks may take long, or wait for what others compute.
  if (std::ranges::any_of(walk.leaves(), has_hooks)) host_.flush();
  for (size_t i = 0; i < walk.leaves().size(); ++i)
    if (captured[i].defined())
      pass_.context().accumulate(walk.leaves()[i], std::move(captured[i]), pass_.options().create_graph);
}

void LocalPass::prepare(const std::shared_ptr<GraphTask>& task) {
  task_ = task;
  {
    MutexLock lock(all_running().mutex);
    all_running().passes[static_cast<int>(task->id_)] = this;
  }
  task->exit_on_error_ = true;
  // They are captured, which alone would not run them.
  for (RecvNode* received : received_) task->exec_info_[received].needed_ = true;
  for (const auto& [hop, sent] : pass_.planned()) {
    if (there_.contains(hop)) continue;
    // One that leads nowhere is not run: its gradient is received, and dropped.
    auto info = task->exec_info_.find(sent.node.get());
    if (info == task->exec_info_.end() || !info->second.should_execute()) continue;
    auto arrival = make_node<ArrivalNode>();
    for (uint32_t i = 0; i < sent.node->num_inputs(); ++i) arrival->add_next_edge(Edge(sent.node, i));
    task->dependencies_[sent.node.get()] += static_cast<int>(sent.node->num_inputs());
    task->exec_info_[arrival.get()].needed_ = true;
    arrivals_.emplace(hop, std::move(arrival));
  }
  if (arrivals_.empty()) return;
  task->exec_info_[pump_.get()].needed_ = true;
  pump_again_ = make_node<ArrivalNode>();
  pump_again_->add_next_edge(Edge(pump_, 0));
  task->exec_info_[pump_again_.get()].needed_ = true;
}

void LocalPass::pump() {
  for (bool handed_over = false;;) {
    std::optional<ArrivedGradient> gradient = pass_.take();
    if (gradient) {
      hand_over(*std::move(gradient));
      handed_over = true;
      if (arrivals_.empty()) return;
    } else if (handed_over) {
      break;
    } else if (task_->outstanding_tasks_ > 1) {
      // Another device is at work, and may give this thread something to do.
      host_.wait(between_looks);
      break;
    } else {
      host_.wait(net::Duration::max());
    }
  }
  {
    const std::lock_guard lock(task_->mutex_);
    task_->dependencies_[pump_.get()] = 1;
  }
  pump_again_->gradients = {at::Tensor()};
  evaluate(*pump_again_);
}

void LocalPass::send_back(const ReceivedHop& hop, Tensors gradients) {
  // The node that runs counts, and the pump. While there is more to compute, or to wait for, the other is to begin.
  const bool computes = task_->outstanding_tasks_ > (arrivals_.empty() ? 1U : 2U);
  const bool done_goes_with_it = arrivals_.empty() && hop.sender->incarnation == pass_.root()->incarnation;
  const bool sends_more_soon = pass_.has_arrived() || done_goes_with_it;
  host_.send_back(hop, std::move(gradients), computes || !sends_more_soon);
}

void LocalPass::evaluate(Node& node) {
  InputBuffer nothing(0);
  Engine::get_default_engine().evaluate_function(task_, &node, nothing, task_->cpu_ready_queue_);
}

// Throws what is wrong with it.
LocalPass::Tensors LocalPass::unpack(ArrivedGradient gradient) {
  const ContextState::Sent& sent = pass_.planned().at(gradient.hop);
  const std::string& from = sent.receiver->name;
  if (gradient.message) {
    if (!gradient.message->message.arrival)
      throw OverloadedError(fmt::format("a gradient from {} was refused: {}", from, gradient.message->message.refusal),
                            from);
    wire::Payload payload = gradient.message->message.arrival->take();
    gradient.message->luggage.unload(payload);
    gradient.tensors = std::move(payload.tensors);
  }
  const size_t count = sent.node->num_inputs();
  if (gradient.tensors.empty()) gradient.tensors.resize(count);  // nothing came of it
  if (gradient.tensors.size() != count)
    throw InvalidArgumentError(fmt::format("{} sent {} gradients for {} tensors", from, gradient.tensors.size(), count),
                               from);
  for (size_t i = 0; i < count; ++i) {
    const at::Tensor& tensor = gradient.tensors[i];
    if (!tensor.defined()) continue;
    // The engine would sum up to the shape, and convert.
    const torch::autograd::InputMetadata& metadata = sent.node->input_metadata(i);
    if (!metadata.is_same_shape(tensor) || metadata.dtype() != tensor.dtype())
      throw InvalidArgumentError(
          fmt::format("{} sent a gradient of shape [{}] and type {} for a tensor of type {} and another shape or type",
                      from, fmt::join(tensor.sizes(), ", "), tensor.dtype().name(), metadata.dtype().name()),
          from);
  }
  return std::move(gradient.tensors);
}

void LocalPass::hand_over(ArrivedGradient gradient) {
  const uint64_t hop = gradient.hop;
  Tensors tensors = unpack(std::move(gradient));
  auto found = arrivals_.find(hop);
  if (found == arrivals_.end()) return;
  const NodePointerTo<ArrivalNode> arrival = std::move(found->second);
  arrivals_.erase(found);
  arrival->gradients = std::move(tensors);
  evaluate(*arrival);
}

}  // namespace gradwire::autograd
