// Data-parallel training beside Gradwire: each trainer has a copy of the dense layers, which torch's own all-reduce
// keeps alike; the table of embeddings is too large to copy, and lives at one worker for all of them.
// Run: gradwire run -n 3 build/examples/data_parallel
#include <algorithm>
#include <cmath>
#include <iostream>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/torch.h>

#include "gradwire/gradwire.h"

namespace {

constexpr int rows = 100, columns = 16, batch_size = 64, steps = 200;

struct Table : torch::nn::Module {
  Table() {
    torch::manual_seed(1);
    weight = register_parameter("weight", torch::randn({rows, columns}));
  }
  torch::Tensor look_up(const torch::Tensor& chosen) {
    return torch::embedding(weight, chosen, -1, false, /*sparse=*/true);
  }
  torch::Tensor weight;
};

struct Dense : torch::nn::Module {
  Dense() {
    torch::manual_seed(2);
    layers->push_back(register_module("first", torch::nn::Linear(columns, 32)));
    layers->push_back(torch::nn::Tanh());
    layers->push_back(register_module("second", torch::nn::Linear(32, 1)));
  }
  torch::Tensor forward(const torch::Tensor& x) { return layers->forward(x).flatten(); }
  torch::nn::Sequential layers;
};

torch::Tensor batch(int step) {
  torch::manual_seed(step);
  return torch::randint(rows, {batch_size});
}
torch::Tensor loss_of(const torch::Tensor& answer, const torch::Tensor& chosen) {
  return torch::mse_loss(answer, chosen.to(torch::kFloat).div(10).sin());
}

// The trainers' own group of torch's, which meets at the workers' store.
using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
Group make_group(const gradwire::net::StorePointer& store, int trainer, int trainers) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>("trainers", store), trainer,
                                                     trainers, options);
}
// What DistributedDataParallel does: gradients become their mean over all trainers, all of them in one message.
std::vector<torch::Tensor> mean_over(const Group& group, const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> flat;
  std::vector<int64_t> sizes;
  for (const torch::Tensor& tensor : tensors) {
    flat.push_back(tensor.detach().flatten());
    sizes.push_back(tensor.numel());
  }
  std::vector<torch::Tensor> message{torch::cat(flat)};
  group->allreduce(message)->wait();
  std::vector<torch::Tensor> means = message[0].div(group->getSize()).split_with_sizes(sizes);
  for (size_t i = 0; i < means.size(); ++i) means[i] = means[i].view_as(tensors[i]);
  return means;
}

constexpr gradwire::Function<std::vector<double>(gradwire::RRef<Table>, int)> train{"train"};

// At a trainer: its part of each batch. The losses of the whole batches.
std::vector<double> train_part(const Group& group, const gradwire::RRef<Table>& table) {
  const int trainers = group->getSize();
  Dense dense;
  std::vector<torch::Tensor> parameters = dense.parameters();
  torch::optim::SGD dense_optimizer(parameters, torch::optim::SGDOptions(0.2));
  // Each trainer steps the table by its share of the mean.
  gradwire::optim::DistributedOptimizer<torch::optim::SGD> table_optimizer(gradwire::nn::parameters(table).get(),
                                                                           torch::optim::SGDOptions(4.0 / trainers));
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor chosen = batch(step).chunk(trainers)[group->getRank()];
    gradwire::autograd::Context context(gradwire::Worker::current());
    const torch::Tensor loss = loss_of(dense.forward(table.call(&Table::look_up, chosen).get()), chosen);
    context.backward(loss);

    std::vector<torch::Tensor> gradients{loss};
    for (const torch::Tensor& parameter : parameters) gradients.push_back(context.gradient(parameter));
    const std::vector<torch::Tensor> means = mean_over(group, gradients);
    losses.push_back(means[0].item<double>());
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = means[i + 1];
    dense_optimizer.step();
    table_optimizer.step(context);
    group->barrier()->wait();  // no one looks up before all have stepped
  }
  return losses;
}

// The same in one process.
std::vector<double> train_here() {
  Table table;
  Dense dense;
  torch::optim::SGD dense_optimizer(dense.parameters(), torch::optim::SGDOptions(0.2));
  torch::optim::SGD table_optimizer(table.parameters(), torch::optim::SGDOptions(4.0));
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor chosen = batch(step);
    dense_optimizer.zero_grad();
    table_optimizer.zero_grad();
    const torch::Tensor loss = loss_of(dense.forward(table.look_up(chosen)), chosen);
    loss.backward();
    dense_optimizer.step();
    table_optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace

int main() {
  torch::set_num_threads(1);  // several processes share the machine
  auto options = gradwire::WorkerOptions::from_environment();
  options.store = gradwire::open_store(options);
  gradwire::Registry registry;
  registry.add_type<Table>("Table").constructor<>().method("look_up", &Table::look_up);
  registry.add(train, [store = options.store](const gradwire::RRef<Table>& table, int trainers) {
    return train_part(make_group(store, gradwire::Worker::current().rank() - 1, trainers), table);
  });
  auto worker = gradwire::Worker::join(registry, options);
  if (worker->rank() == 0) {
    const int trainers = static_cast<int>(worker->peers().size()) - 1;
    if (trainers < 1 || batch_size % trainers != 0) {
      std::cerr << "1, 2, 4, 8... trainers, which share a batch of " << batch_size << " evenly: gradwire run -n 3\n";
      return 2;
    }
    auto table = worker->share(std::make_shared<Table>());
    std::vector<gradwire::Future<std::vector<double>>> trained;
    for (const gradwire::Peer& peer : worker->peers())
      if (peer.rank() != 0) trained.push_back(peer.call(train, table, trainers));
    const std::vector<double> losses = gradwire::when_all(trained).get().at(0);
    const std::vector<double> losses_here = train_here();
    double difference = 0;
    for (int step = 0; step < steps; ++step)
      difference = std::max(difference, std::abs(losses[step] - losses_here[step]));
    std::cout << trainers << " trainers, " << steps << " steps\n"
              << "the loss fell " << (losses.back() < 0.001 ? "below 0.001" : "too little") << '\n'
              << "losses: " << (difference < 1e-4 ? "as in one process" : "not as in one process") << '\n';
  }
  worker->leave();
}
