// A reference on its way around a ring of workers. Run: gradwire run -n 4 build/examples/ring
#include <chrono>
#include <iostream>
#include <thread>

#include <torch/torch.h>

#include "gradwire/gradwire.h"

using namespace std::chrono_literals;

namespace {

// No lock: its calls run one at a time.
struct Log {
  void add(std::string name) { names.push_back(std::move(name)); }
  std::vector<std::string> names;
};

inline constexpr gradwire::Function<int(gradwire::RRef<Log>, gradwire::RRef<torch::Tensor>)> pass_on{"pass_on"};
inline constexpr gradwire::Function<bool()> nothing_left{"nothing_left"};

}  // namespace

int main() {
  gradwire::Registry registry;
  registry.add_type<Log>("Log").method("add", &Log::add).serialised();
  // Each adds its name to the log at the owner, fetches the tensor, and gives both references to the next, until they
  // are back at their owner.
  registry.add(pass_on, [](gradwire::RRef<Log> log, gradwire::RRef<torch::Tensor> x) -> gradwire::Task<int> {
    gradwire::Worker& here = gradwire::Worker::current();
    co_await log.call(&Log::add, here.name());
    torch::Tensor value = co_await x.fetch();
    const int mine = value.item<int>();
    if (log.is_owner()) co_return mine;
    const int next = (here.rank() + 1) % static_cast<int>(here.peers().size());
    co_return mine + co_await here.peer(next).call(pass_on, log, x);
  });
  registry.add(nothing_left, [] { return gradwire::Worker::current().debug().empty(); });

  auto worker = gradwire::Worker::join(registry);
  if (worker->rank() == 0) {
    {
      gradwire::RRef<Log> log = worker->share(Log());
      gradwire::RRef<torch::Tensor> x = worker->share(torch::full({1}, 5));
      std::cout << "sum: " << worker->peer(1).call(pass_on, log, x).get() << '\n';
      std::cout << "path:";
      for (const std::string& name : log.local()->names) std::cout << ' ' << name;
      std::cout << '\n';
    }  // the last references end here
    for (const gradwire::Peer& peer : worker->peers()) {
      while (!peer.call(nothing_left).get()) std::this_thread::sleep_for(1ms);  // releases are under way
      std::cout << "nothing is left at " << peer.name() << '\n';
    }
  }
  worker->leave();
}
