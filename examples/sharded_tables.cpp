// A table of embeddings that is sharded over workers: each row lives at one of them, and a step touches a few.
// Run: gradwire run -n 4 build/examples/sharded_tables
#include <iostream>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

namespace {

constexpr int rows = 3000, columns = 16;

struct Shard : torch::nn::Module {
  // Every `shards`-th row of the whole table, from `first` on.
  Shard(int first, int shards) {
    torch::manual_seed(1);
    const torch::Tensor whole = torch::randn({rows, columns}) * 0.1;
    weight = register_parameter("weight", whole.slice(0, first, rows, shards).clone());
  }
  torch::Tensor look_up(const torch::Tensor& chosen) {
    gathered = torch::embedding(weight, chosen, -1, false, /*sparse=*/true);
    return gathered;
  }
  // Whether the gradient of the step at hand has only the rows that were looked up.
  bool is_sparse() {
    const torch::Tensor gradient = gradwire::autograd::Context::current().gradient(weight);
    return !gradient.defined() || (gradient.is_sparse() && gradient._nnz() < rows / 10);
  }
  torch::Tensor weight, gathered;
};

// All shards as one table.
class Table {
 public:
  explicit Table(gradwire::Worker& worker) {
    for (const gradwire::Peer& peer : worker.peers())
      if (peer.rank() != worker.rank()) owners_.push_back(peer);
    for (size_t i = 0; i < owners_.size(); ++i)
      shards_.push_back(owners_[i].make<Shard>(static_cast<int>(i), static_cast<int>(owners_.size())));
  }
  // Asks all shards at once; in the order of what was asked for.
  torch::Tensor look_up(const torch::Tensor& chosen) const {
    const auto count = static_cast<int64_t>(shards_.size());
    std::vector<gradwire::Future<torch::Tensor>> found;
    std::vector<torch::Tensor> places;
    for (int64_t shard = 0; shard < count; ++shard) {
      places.push_back(chosen.remainder(count).eq(shard).nonzero().flatten());
      found.push_back(shards_[shard].call(&Shard::look_up, chosen.index_select(0, places.back()).div(count, "floor")));
    }
    const torch::Tensor all = torch::cat(gradwire::when_all(found).get());
    return all.index_select(0, torch::cat(places).argsort());
  }
  std::vector<gradwire::RRef<torch::Tensor>> parameters() const {
    return gradwire::nn::parameters({shards_.begin(), shards_.end()}).get();
  }
  const std::vector<gradwire::RRef<Shard>>& shards() const { return shards_; }

 private:
  std::vector<gradwire::Peer> owners_;
  std::vector<gradwire::RRef<Shard>> shards_;
};

torch::Tensor chosen_in(int step) {
  torch::manual_seed(step);
  return torch::randint(rows, {64});
}
// Something to learn: rows that are one apart are to be alike.
torch::Tensor loss_of(const torch::Tensor& found, const torch::Tensor& chosen) {
  return torch::mse_loss(found.sum(1), chosen.to(torch::kFloat).div(rows).sin());
}

}  // namespace

int main() {
  torch::set_num_threads(1);  // several processes share the machine
  gradwire::Registry registry;
  registry.add_type<Shard>("Shard")
      .constructor<int, int>()
      .method("look_up", &Shard::look_up)
      .method("is_sparse", &Shard::is_sparse);
  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    const Table table(*worker);
    gradwire::optim::DistributedOptimizer<torch::optim::SGD> optimizer(table.parameters(),
                                                                       torch::optim::SGDOptions(1.0));
    Shard whole(0, 1);
    torch::optim::SGD optimizer_here(whole.parameters(), torch::optim::SGDOptions(1.0));
    bool same = true, sparse = true;
    for (int step = 0; step < 100; ++step) {
      const torch::Tensor chosen = chosen_in(step);
      gradwire::autograd::Context context(*worker);
      const torch::Tensor loss = loss_of(table.look_up(chosen), chosen);
      context.backward(loss);
      for (const auto& shard : table.shards()) sparse = shard.call(&Shard::is_sparse).get() && sparse;
      optimizer.step(context);

      const torch::Tensor loss_here = loss_of(whole.look_up(chosen), chosen);
      optimizer_here.zero_grad();
      loss_here.backward();
      optimizer_here.step();
      same = same && torch::allclose(loss, loss_here, 1e-5, 1e-6);
    }
    std::cout << table.shards().size() << " shards of " << rows / table.shards().size() << " rows, 100 steps\n"
              << "gradients: " << (sparse ? "sparse" : "dense") << '\n'
              << "losses: " << (same ? "as in one process" : "not as in one process") << '\n';
  }
  worker->leave();
}
