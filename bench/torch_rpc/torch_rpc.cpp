// The rows of the bench on torch's own RPC, in C++ without Python: TensorPipeAgent, RRefContext and DistEngine.
// usage: torch_rpc --list, or torch_rpc PORT [ROW...]: two processes on this host; prints "NAME VALUE UNIT" for each
// row.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/rpc/request_callback_no_python.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include "../row.h"
#include "caller.h"

namespace gradwire::bench {
namespace {

constexpr int64_t megabyte = 1 << 20;

at::Tensor ones_of(int64_t megabytes) { return at::ones({megabytes * megabyte / static_cast<int64_t>(sizeof(float))}); }

// Another thread sends 5000 calls a second, about half of what torch's RPC can take.
double p99_at_half_load(const Caller& caller) {
  std::atomic<bool> stop = false;
  std::thread load([&] {
    auto next = std::chrono::steady_clock::now();
    while (!stop) {
      next += std::chrono::milliseconds(10);
      std::vector<Answer> answers;
      for (int i = 0; i < 50; ++i) answers.push_back(caller.add(caller.small, caller.small));
      std::this_thread::sleep_until(next);
      for (const Answer& answer : answers) result_of(answer);
    }
  });
  std::vector<double> seconds;
  for (int i = 0; i < 5000; ++i) seconds.push_back(seconds_of([&] { caller.added(caller.small, caller.small); }));
  stop = true;
  load.join();
  std::ranges::sort(seconds);
  return seconds[seconds.size() * 99 / 100];
}

double during_bulk(const Caller& caller) {
  const at::Tensor large = ones_of(64);
  std::atomic<bool> stop = false;
  std::thread bulk([&] {
    while (!stop) caller.round_trip(large);
  });
  const double seconds = median_seconds(1000, [&] { caller.added(caller.small, caller.small); });
  stop = true;
  bulk.join();
  return seconds;
}

double memory_growth(const Caller& caller, int warm_up, int count, const std::function<void()>& thousand) {
  const auto run = [&](int times) {
    for (int i = 0; i < times; i += 1000) thousand();
  };
  run(warm_up);
  return caller.growth([&] { run(count); });
}

struct TorchRow {
  std::string name;
  std::string unit;
  std::function<double(const Caller&)> measure;
};

std::vector<TorchRow> torch_rows() {
  std::vector<TorchRow> rows;
  const auto add = [&](const std::string& name, const char* unit, std::function<double(const Caller&)> measure) {
    rows.push_back({name, unit, std::move(measure)});
  };
  add("call.blocking.operator", "us", [](const Caller& caller) {
    return 1e6 * median_seconds(3000, [&] { caller.added(caller.small, caller.small); });
  });
  add("call.async.rate", "per_second",
      [](const Caller& caller) { return 1000 / median_seconds(15, [&] { caller.overlapping_calls(1000); }); });
  for (const int64_t size : {1, 16, 64, 256})
    add("call.round_trip." + std::to_string(size) + "MB", "ms", [size](const Caller& caller) {
      const at::Tensor large = ones_of(size);
      return 1e3 * median_seconds(size > 100 ? 9 : 51, [&] { caller.round_trip(large); });
    });
  add("call.blocking.p99_at_half_load", "us", [](const Caller& caller) { return 1e6 * p99_at_half_load(caller); });
  add("call.blocking.during_bulk", "us", [](const Caller& caller) { return 1e6 * during_bulk(caller); });
  add("call.memory_growth_per_million", "percent", [](const Caller& caller) {
    return memory_growth(caller, 1'000'000, 1'000'000, [&] { caller.overlapping_calls(1000); });
  });
  add("reference.create_fetch", "us",
      [](const Caller& caller) { return 1e6 * median_seconds(1500, [&] { caller.create()->toHere(); }); });
  add("reference.create_drop.rate", "per_second",
      [](const Caller& caller) { return 1000 / median_seconds(15, [&] { caller.create_and_drop(1000); }); });
  add("reference.memory", "percent", [](const Caller& caller) {
    return memory_growth(caller, 1'000'000, 1'000'000, [&] { caller.create_and_drop(1000); });
  });

  const at::Tensor a = at::ones({4}).set_requires_grad(true);
  const at::Tensor b = at::ones({4}).set_requires_grad(true);
  for (const int hops : {1, 10, 100})
    add("gradient.hops." + std::to_string(hops), "us", [a, b, hops](const Caller& caller) {
      return 1e6 * median_seconds(hops == 1 ? 400 : hops == 10 ? 80 : 9, [&] { caller.chain(hops, a, b); });
    });
  add("gradient.fan_out.16", "us",
      [a, b](const Caller& caller) { return 1e6 * median_seconds(100, [&] { caller.fan_out(a, b); }); });
  add("gradient.engine_only", "us", [a](const Caller& caller) {
    return 1e6 * median_seconds(2000, [&] { caller.pass([&] { return a.mul(2).sum(); }, 1); });
  });
  add("gradient.contexts.1000", "us",
      [a](const Caller& caller) { return 1e6 * median_seconds(5, [&] { caller.contexts(1000, a); }); });
  add("gradient.memory_growth_per_100k_steps", "percent", [a, b](const Caller& caller) {
    return memory_growth(caller, 20'000, 100'000, [&] {
      for (int i = 0; i < 1000; ++i) caller.chain(1, a, b);
    });
  });
  return rows;
}

int run(int port, const std::set<std::string>& wanted) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  const int rank = child == 0 ? 1 : 0;
  at::set_num_threads(1);

  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(port);
  store_options.isServer = rank == 0;
  store_options.numWorkers = 2;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", store_options);
  const rpc::TensorPipeRpcBackendOptions options(16, std::nullopt, std::nullopt, 60, "env://", {}, {});
  const auto agent = std::make_shared<rpc::TensorPipeAgent>(
      store, "w" + std::to_string(rank), rank, 2, options, std::unordered_map<std::string, rpc::DeviceMap>{},
      std::vector<c10::Device>{}, std::make_unique<rpc::RequestCallbackNoPython>());
  rpc::RpcAgent::setCurrentRpcAgent(agent);
  agent->setTypeResolver(std::make_shared<rpc::TypeResolver>([](const c10::QualifiedName& name) {
    return c10::StrongTypePtr(nullptr, torch::jit::Unpickler::defaultTypeParser(name.qualifiedName()));
  }));
  dist_autograd::DistAutogradContainer::init(static_cast<rpc::worker_id_t>(rank));
  agent->start();
  if (rank == 0) {
    const Caller caller(*agent, child);
    for (const TorchRow& row : torch_rows()) {
      if (!wanted.empty() && !wanted.contains(row.name)) continue;
      std::printf("%s %.6g %s\n", row.name.c_str(), row.measure(caller), row.unit.c_str());
      std::fflush(stdout);
    }
  }
  agent->join();
  agent->shutdown();
  int status = 0;
  if (rank == 0) waitpid(child, &status, 0);
  _exit(status == 0 ? 0 : 1);  // the threads of torch's agent outlive their objects
}

}  // namespace
}  // namespace gradwire::bench

int main(int argc, char** argv) {
  using namespace gradwire::bench;
  const std::vector<std::string> given(argv + 1, argv + argc);
  if (given.empty()) {
    std::fprintf(stderr, "usage: torch_rpc --list | PORT [ROW...]\n");
    return 2;
  }
  if (given[0] == "--list") {
    for (const TorchRow& row : torch_rows()) std::printf("%s %s\n", row.name.c_str(), row.unit.c_str());
    return 0;
  }
  try {
    return run(std::stoi(given[0]), {given.begin() + 1, given.end()});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "torch_rpc: %s\n", error.what());
    _exit(1);
  }
}
