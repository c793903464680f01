// What a worker tells of its part of a step's graph, and how the parts are put together.
#include <unordered_map>

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include "gradwire/autograd/context.h"
#include "gradwire/autograd/contexts.h"
#include "gradwire/autograd/nodes.h"
#include "gradwire/rpc/worker_core.h"

namespace gradwire::autograd {
namespace {

constexpr Function<GraphPart()> graph_part{"Context.graph"};

// "MulBackward0" says more than it needs to.
std::string short_name(std::string name) {
  if (const size_t backward = name.find("Backward"); backward != std::string::npos && backward > 0)
    name.resize(backward);
  return name;
}

GraphPart part_of(ContextState& context, const std::string& worker, const std::vector<at::Tensor>& roots) {
  GraphPart part{.worker = worker, .nodes = {}, .edges = {}};
  std::unordered_map<const torch::autograd::Node*, uint32_t> numbers;
  std::vector<torch::autograd::Node*> to_do;
  const auto number_of = [&](torch::autograd::Node* node) {
    auto [place, is_new] = numbers.emplace(node, static_cast<uint32_t>(part.nodes.size()));
    if (is_new) {
      GraphPart::Node& described = part.nodes.emplace_back();
      described.name = short_name(node->name());
      if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
        described.is_leaf = true;
        described.name = fmt::format("leaf [{}]", fmt::join(leaf->variable.sizes(), ", "));
      } else if (const auto* received = dynamic_cast<RecvNode*>(node)) {
        described.is_recv = true;
        described.hop_maker = static_cast<uint64_t>(received->hop()->hop.maker);
        described.hop = received->hop()->hop.counter;
      }
      to_do.push_back(node);
    }
    return place->second;
  };
  const std::map<uint64_t, ContextState::Sent> sends = context.all_sends();
  for (const at::Tensor& root : roots) number_of(torch::autograd::impl::gradient_edge(root).function.get());
  for (const auto& [hop, sent] : sends) {
    GraphPart::Node& described = part.nodes[number_of(sent.node.get())];
    described.is_send = true;
    described.hop_maker = static_cast<uint64_t>(context.self());
    described.hop = hop;
  }
  while (!to_do.empty()) {
    torch::autograd::Node* node = to_do.back();
    to_do.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges())
      if (edge.function) part.edges.push_back({number_of(node), number_of(edge.function.get())});
  }
  return part;
}

}  // namespace

void add_graph(Registry& registry) {
  registry.add(graph_part, [] {
    const auto frame = std::static_pointer_cast<Frame>(Surroundings::here().context);
    return frame ? part_of(*frame->context, Worker::current().name(), {}) : GraphPart{};
  });
}

StepGraph ContextView::graph(const std::vector<at::Tensor>& roots) const {
  const std::shared_ptr<Contexts> contexts = frame_->context->contexts();
  const std::shared_ptr<WorkerCore> core = contexts ? contexts->place().core.lock() : nullptr;
  if (!core) throw InvalidArgumentError("the worker of this context is gone: join again");
  if (!frame_->context->created_here())
    throw InvalidArgumentError("graph() is for the worker that made the context: it alone knows all that take part");
  const ContextGuard guard(*this);
  StepGraph graph;
  graph.parts.push_back(part_of(*frame_->context, core->options().name, roots));
  // Not the members that this worker knows: the word of one that another drew in may still be under way.
  std::vector<Future<GraphPart>> others;
  for (const Peer& peer : core->view().peers())
    if (peer.incarnation() != core->record().incarnation) others.push_back(peer.call(graph_part));
  for (const Future<GraphPart>& other : others) {
    try {
      GraphPart part = other.get();
      if (!part.nodes.empty()) graph.parts.push_back(std::move(part));
    } catch (const PeerGoneError& gone) {
      VLOG(1) << "gradwire: not in the graph: " << gone.what();
    }
  }
  std::ranges::sort(graph.parts, {}, &GraphPart::worker);
  return graph;
}

}  // namespace gradwire::autograd
