// Runs random programs on a cluster and in one process, and compares values and gradients.
//
//   random_programs --seeds 1:2001 [--workers 3] [--second-order]
//
// Ends with 0 and a last line "N programs, 0 failed"; a program that fails is printed.
#include <iostream>
#include <map>
#include <set>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "gradwire/autograd/contexts.h"
#include "gradwire/gradwire.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/cluster.h"

#include "tests/autograd/random_program_on_workers.h"

namespace gradwire::autograd {
namespace {

class OneProcess : public Machine {
 public:
  OneProcess(uint64_t seed, int size) {
    for (int worker = 0; worker < size; ++worker) parameters_.push_back(make_parameters(seed, worker));
  }
  int workers() const override { return static_cast<int>(parameters_.size()); }
  int here() const override { return here_; }
  Parameters& parameters() override { return parameters_[static_cast<size_t>(here_)]; }
  Tensors call(int worker, const Body& body, const Tensors& inputs) override {
    const int before = std::exchange(here_, worker);
    Tensors results = run(*this, body, inputs);
    here_ = before;
    return results;
  }
  std::vector<Tensors> call_all(const std::vector<int>& workers, const std::vector<Body>& bodies,
                                const Tensors& inputs) override {
    std::vector<Tensors> all;
    for (size_t i = 0; i < workers.size(); ++i) all.push_back(call(workers[i], bodies[i], inputs));
    return all;
  }
  struct Value : Handle {
    explicit Value(at::Tensor made) : tensor(std::move(made)) {}
    at::Tensor tensor;
  };
  HandlePointer remote(int worker, const Body& body, const Tensors& inputs) override {
    return std::make_shared<Value>(call(worker, body, inputs).at(0));
  }
  at::Tensor fetch(const HandlePointer& handle) override { return static_cast<Value&>(*handle).tensor; }
  at::Tensor use(int worker, const HandlePointer& handle) override {
    const int before = std::exchange(here_, worker);
    at::Tensor result = used(*this, static_cast<Value&>(*handle).tensor);
    here_ = before;
    return result;
  }
  void note(const std::string& line) override { program += "  " + line + "\n"; }
  Tensors leaves() const {
    Tensors all;
    for (const Parameters& worker : parameters_)
      for (const at::Tensor& leaf : worker.all()) all.push_back(leaf);
    return all;
  }
  std::string program;

 private:
  std::vector<Parameters> parameters_;
  int here_ = 0;
};

// The same of gradients, for a second derivative.
at::Tensor loss_of_gradients(const Tensors& gradients) {
  at::Tensor loss;
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined() || !gradient.requires_grad()) continue;
    const at::Tensor sum = gradient.mul(gradient).sum();
    loss = loss.defined() ? loss.add(sum) : sum;
  }
  return loss;
}

bool same(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (a.layout() != b.layout()) return false;
  // Numbers that went through single precision agree no better than it is.
  return at::allclose(a.layout() == at::kSparse ? a.to_dense() : a, b.layout() == at::kSparse ? b.to_dense() : b, 1e-6,
                      1e-9);
}

Tensors sum_of(const Tensors& a, const Tensors& b) {
  Tensors sum;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined() || !b[i].defined())
      sum.push_back(a[i].defined() ? a[i] : b[i]);
    else
      sum.push_back(a[i].add(b[i]));
  }
  return sum;
}

struct Outcome {
  Tensors results;
  Tensors gradients;
  size_t hops = 0;
  bool fast_is_legal = false;
};

Outcome run_in_one_process(OneProcess& machine, const Body& program, bool second_order) {
  Outcome outcome{.results = run(machine, program, {}), .gradients = {}};
  const Tensors leaves = machine.leaves();
  const at::Tensor loss = loss_of(outcome.results);
  outcome.gradients.resize(leaves.size());
  if (!loss.defined()) return outcome;
  outcome.gradients = torch::autograd::grad({loss}, leaves, {}, second_order, second_order, /*allow_unused=*/true);
  if (!second_order) return outcome;
  const at::Tensor second = loss_of_gradients(outcome.gradients);
  if (!second.defined()) return outcome;
  outcome.gradients = sum_of(outcome.gradients, torch::autograd::grad({second}, leaves, {}, false, false, true));
  return outcome;
}

size_t count_hops(testing::Cluster& cluster, int size) {
  size_t hops = 0;
  for (int worker = 0; worker < size; ++worker)
    for (const ContextReport& context : Contexts::of(WorkerAccess::core(cluster[worker]))->report())
      hops += context.counts.sends;
  return hops;
}

// Whether every hop lies on a way from the loss: then a pass needs no plan.
bool reaches_all(const StepGraph& graph) {
  using Place = std::pair<size_t, uint32_t>;  // part and node
  std::map<std::pair<uint64_t, uint64_t>, Place> sends;
  std::set<Place> unseen_sends;
  std::vector<Place> next;
  for (size_t p = 0; p < graph.parts.size(); ++p) {
    const GraphPart& part = graph.parts[p];
    std::set<uint32_t> below;
    for (const GraphPart::Edge& edge : part.edges) below.insert(edge.to);
    for (uint32_t n = 0; n < part.nodes.size(); ++n) {
      const GraphPart::Node& node = part.nodes[n];
      if (node.is_send) {
        sends[{node.hop_maker, node.hop}] = {p, n};
        unseen_sends.insert({p, n});
      } else if (!below.contains(n)) {
        next.emplace_back(p, n);  // the loss: all else is below a send or it
      }
    }
  }
  std::set<Place> seen(next.begin(), next.end());
  const auto reach = [&](Place place) {
    unseen_sends.erase(place);
    if (seen.insert(place).second) next.push_back(place);
  };
  while (!next.empty()) {
    const auto [p, n] = next.back();
    next.pop_back();
    const GraphPart& part = graph.parts[p];
    for (const GraphPart::Edge& edge : part.edges)
      if (edge.from == n) reach({p, edge.to});
    const GraphPart::Node& node = part.nodes[n];
    if (node.is_recv)
      if (const auto sent = sends.find({node.hop_maker, node.hop}); sent != sends.end()) reach(sent->second);
  }
  return unseen_sends.empty();
}

void wait_until_nothing_runs(testing::Cluster& cluster, int size) {
  // One that ends may have started another at a worker that was looked at before it.
  for (uint64_t begun = 0, before = 0;; before = begun) {
    bool any = false;
    begun = 1;
    for (int worker = 0; worker < size; ++worker) {
      const Metrics metrics = cluster[worker].metrics();
      any = any || metrics.functions_running > 0;
      begun += metrics.queued.count;
    }
    if (!any && begun == before) return;
    std::this_thread::yield();
  }
}

// FAST only where it is legal: the outcome says whether it was.
Outcome run_on_cluster(testing::Cluster& cluster, int size, const Body& program, bool second_order, Mode mode) {
  Context context(cluster[0]);
  Distributed machine(cluster[0], size);
  Outcome outcome{.results = run(machine, program, {}), .gradients = {}};
  const auto all_gradients = [&] {
    Tensors all;
    for (int worker = 0; worker < size; ++worker)
      // Those of the workers that take no part are not there.
      for (at::Tensor& gradient : cluster[0].peer(worker).call(gradients_function).get()) all.push_back(gradient);
    return all;
  };
  const at::Tensor loss = loss_of(outcome.results);
  if (loss.defined() && !second_order) {
    // A function whose result no one asked for may still be at work, and send more.
    wait_until_nothing_runs(cluster, size);
    outcome.fast_is_legal = reaches_all(context.graph({loss}));
  }
  if (mode == Mode::fast && !outcome.fast_is_legal) throw std::runtime_error("the same program has another graph");
  if (loss.defined()) context.backward(loss, {.create_graph = second_order, .mode = mode});
  outcome.gradients = all_gradients();
  outcome.hops = count_hops(cluster, size);
  if (!second_order || !loss.defined()) return outcome;
  const at::Tensor second = loss_of_gradients(outcome.gradients);
  if (!second.defined()) return outcome;
  context.backward(second);
  outcome.gradients = all_gradients();
  return outcome;
}

bool agree(const Outcome& a, const Outcome& b, std::string& why) {
  for (size_t i = 0; i < a.results.size(); ++i) {
    if (!same(a.results[i], b.results[i]) || a.results[i].requires_grad() != b.results[i].requires_grad()) {
      why = fmt::format("result {} differs", i);
      return false;
    }
  }
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    if (!same(a.gradients[i], b.gradients[i])) {
      std::stringstream text;
      text << "leaf " << i % 3 << " of worker" << i / 3 << " has the gradient\n"
           << a.gradients[i] << "\nin one process, and on the cluster\n"
           << b.gradients[i];
      why = text.str();
      return false;
    }
  }
  return true;
}

bool nothing_left(testing::Cluster& cluster, int size) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int worker = 0; worker < size;) {
    if (Contexts::of(WorkerAccess::core(cluster[worker]))->report().empty())
      ++worker;
    else if (std::chrono::steady_clock::now() > deadline)
      return false;
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct Totals {
  size_t hops = 0;
  size_t most_hops = 0;
  size_t fast = 0;
};

// Empty if all is well.
std::string failure_of(testing::Cluster& cluster, int size, const Body& program, std::string& text, Totals& totals) {
  const bool second_order = program.smooth;
  OneProcess machine(program.seed, size);
  std::string why;
  try {
    const Outcome expected = run_in_one_process(machine, program, second_order);
    for (int worker = 0; worker < size; ++worker)
      all_parameters()[fmt::format("worker{}", worker)] = make_parameters(program.seed, worker);
    const Outcome outcome = run_on_cluster(cluster, size, program, second_order, Mode::smart);
    agree(expected, outcome, why);
    totals.hops += outcome.hops;
    totals.most_hops = std::max(totals.most_hops, outcome.hops);
    if (why.empty() && outcome.fast_is_legal) {
      ++totals.fast;
      if (!agree(expected, run_on_cluster(cluster, size, program, second_order, Mode::fast), why))
        why = "in mode FAST: " + why;
    }
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (why.empty() && !nothing_left(cluster, size)) why = "a context is left";
  text = machine.program;
  return why;
}

int run_all(uint64_t first, uint64_t last, int size, bool second_order) {
  testing::Cluster cluster(size, functions_of_random_programs(size));
  uint64_t failed = 0;
  Totals totals;
  for (uint64_t seed = first; seed < last; ++seed) {
    const Body program{.seed = seed, .budget = static_cast<int64_t>(2 + seed % 16), .smooth = second_order};
    std::string text;
    std::string why = failure_of(cluster, size, program, text, totals);
    if (why.empty()) continue;
    ++failed;
    // A shorter one that fails too is easier to understand.
    Body shorter = program;
    for (shorter.budget = 0; shorter.budget < program.budget; ++shorter.budget) {
      std::string its_text;
      Totals ignored;
      const std::string its = failure_of(cluster, size, shorter, its_text, ignored);
      if (its.empty()) continue;
      why = its;
      text = its_text;
      break;
    }
    std::cout << "seed " << seed << " failed: " << why << "\nThe program, with " << shorter.budget
              << " calls at most in its main function:\n"
              << text << std::flush;
  }
  std::cout << totals.hops << " hops, " << totals.most_hops << " in one program; " << totals.fast
            << " programs also in mode FAST\n";
  std::cout << last - first << " programs, " << failed << " failed" << std::endl;
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gradwire::autograd

int main(int argc, char** argv) {
  CLI::App app("Runs random programs on a cluster and in one process, and compares values and gradients.");
  std::string seeds = "1:201";
  int workers = 3;
  bool second_order = false;
  app.add_option("--seeds", seeds, "first and one past the last, as 1:2001");
  app.add_option("--workers", workers, "of the cluster")->check(CLI::Range(1, 64));
  app.add_flag("--second-order", second_order, "second derivatives too");
  CLI11_PARSE(app, argc, argv);
  const size_t colon = seeds.find(':');
  if (colon == std::string::npos) {
    std::cerr << "--seeds takes two numbers, as 1:2001\n";
    return 2;
  }
  at::set_num_threads(1);
  return gradwire::autograd::run_all(std::stoull(seeds.substr(0, colon)), std::stoull(seeds.substr(colon + 1)), workers,
                                     second_order);
}
