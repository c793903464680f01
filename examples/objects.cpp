// Objects that live at another worker, and their methods. Run: gradwire run -n 2 build/examples/objects
#include <iostream>
#include <stdexcept>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

namespace {

struct Net : torch::nn::Module {
  Net(int64_t in, int64_t out) : layer(register_module("layer", torch::nn::Linear(in, out))) {
    torch::NoGradGuard no_grad;
    layer->weight.fill_(0.5);
    layer->bias.fill_(1.0);
  }
  torch::Tensor forward(torch::Tensor x) { return layer->forward(x); }
  // What this refers to is at the same worker: no tensor travels.
  double sum_of(const gradwire::RRef<torch::Tensor>& y) const { return y.local().sum().item<double>(); }

  torch::nn::Linear layer;
};

// No lock: its calls run one at a time.
struct Account {
  int64_t deposit(int64_t amount) { return balance += amount; }
  int64_t withdraw(int64_t amount) {
    if (amount > balance) throw std::invalid_argument("there are only " + std::to_string(balance));
    return balance -= amount;
  }
  int64_t balance = 0;
};

}  // namespace

int main() {
  gradwire::Registry registry;  // the same at the caller and at the owner
  registry.add_type<Net>("Net")
      .constructor<int64_t, int64_t>()
      .method("forward", &Net::forward)
      .method("sum_of", &Net::sum_of);
  registry.add_type<Account>("Account")
      .constructor<>()
      .method("deposit", &Account::deposit)
      .method("withdraw", &Account::withdraw)
      .serialised();
  registry.add_type<torch::nn::Linear>("Linear").constructor<int64_t, int64_t>().method(
      "forward", &torch::nn::LinearImpl::forward);

  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    gradwire::Peer peer = worker->peer("worker1");
    torch::Tensor x = torch::ones({1, 4});

    gradwire::RRef<Net> net = peer.make<Net>(4, 2);                       // built there, owned there
    torch::Tensor y = net.call(&Net::forward, x).get();                   // runs there, the result comes here
    gradwire::RRef<torch::Tensor> z = net.remote(&Net::forward, 10 * x);  // the result stays there as well
    std::cout << "forward: " << y.sum().item<double>() << '\n';
    std::cout << "there: " << net.call(&Net::sum_of, z).get() << '\n';
    std::cout << "fetched: " << z.fetch().get().sum().item<double>() << ", from " << z.owner().name() << '\n';

    // A module of torch's own. Its implementation is what is made.
    auto linear = peer.make<torch::nn::Linear>(4, 3);
    std::cout << "linear: " << linear.call(&torch::nn::LinearImpl::forward, x).get().sizes() << '\n';

    // A hundred calls that overlap; each sees what the ones before it have done.
    auto account = peer.make<Account>();
    std::vector<gradwire::Future<int64_t>> balances;
    for (int i = 0; i < 100; ++i) balances.push_back(account.call(&Account::deposit, 1));
    std::cout << "balance: " << gradwire::when_all(balances).get().back() << '\n';
    try {
      account.call(&Account::withdraw, 500).get();
    } catch (const gradwire::RemoteError& error) {
      std::cout << "refused: " << error.what() << '\n';
    }

    // An object of this worker's own: the pointer itself.
    auto own = worker->share(std::make_shared<Account>());
    own.local()->deposit(7);
    std::cout << "own: " << own.call(&Account::deposit, 1).get() << '\n';
    try {
      net.local();
    } catch (const gradwire::InvalidArgumentError& error) {
      std::cout << "elsewhere: " << error.what() << '\n';
    }
  }  // the last references end here, and with them the objects at worker1
  worker->leave();
}
