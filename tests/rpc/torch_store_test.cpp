// torch's process groups beside Gradwire, with the same MASTER_ADDR and MASTER_PORT. Their rendezvous (env://) opens a
// TCPStore as below: rank 0 serves, shared with whatever serves that port in the process, and all dial MASTER_ADDR.
#include <unistd.h>

#include <sstream>

#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "gradwire/gradwire.h"
#include "gradwire/net/store_address.h"
#include "gradwire/testing/processes.h"

#include "tests/support/captured_log.h"
#include "tests/support/free_port.h"
#include "tests/support/host_name.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;

constexpr Function<int(int)> echo{"echo"};

struct Given {
  explicit Given(const std::string& argument) {
    std::istringstream words(argument);
    words >> rank >> order >> host >> port >> torch_port;
  }
  int rank = 0;
  std::string order;
  std::string host;
  uint16_t port = 0;
  uint16_t torch_port = 0;
};

// What init_process_group does before its first operation: each tells the others where it is.
net::StorePointer init_process_group(const Given& given) {
  c10d::TCPStoreOptions options;
  options.port = given.torch_port;
  options.isServer = given.rank == 0;
  options.numWorkers = 2;
  options.timeout = 30s;
  options.multiTenant = true;
  auto store =
      c10::make_intrusive<c10d::PrefixStore>("default_pg", c10::make_intrusive<c10d::TCPStore>(given.host, options));
  store->set(std::to_string(given.rank), "address" + std::to_string(given.rank));
  if (store->get_to_str(std::to_string(1 - given.rank)) != "address" + std::to_string(1 - given.rank))
    throw std::runtime_error("the other rank's address is wrong");
  return store;
}

// "RANK ORDER HOST PORT TORCH_PORT".
int beside_torch(testing::Child& me) {
  const Given given(me.argument());
  net::StorePointer torchs;
  if (given.order == "before") torchs = init_process_group(given);
  Registry registry;
  registry.add(echo, [](int x) { return x; });
  auto worker = Worker::join(registry, {.rank = given.rank,
                                        .world_size = 2,
                                        .master_address = given.host,
                                        .master_port = given.port,
                                        .join_timeout = 60s});
  if (given.order == "after") torchs = init_process_group(given);
  const int answer = worker->peer(1 - given.rank).call(echo, 7).get();
  worker->leave();
  worker.reset();
  // torch's groups go on when Gradwire has left.
  torchs->set("later" + std::to_string(given.rank), std::string("there"));
  if (torchs->get_to_str("later" + std::to_string(1 - given.rank)) != "there") return 2;
  torchs->add("done", 1);
  while (given.rank == 0 && torchs->add("done", 0) < 2) std::this_thread::sleep_for(1ms);
  me.say("done " + std::to_string(answer));
  return 0;
}

void run(const std::string& order, const std::string& host, bool own_port = false) {
  const uint16_t port = testing::free_port();
  const std::string rest = " " + order + " " + host + " " + std::to_string(port) + " " +
                           std::to_string(own_port ? testing::free_port() : port);
  const auto one = testing::Processes().start(beside_torch, "1" + rest);
  const auto zero = testing::Processes().start(beside_torch, "0" + rest);
  for (const auto* each : {&zero, &one}) (*each)->expect("done 7");
  EXPECT_EQ(zero->wait(), 0);
  EXPECT_EQ(one->wait(), 0);
}

TEST(TorchStore, ProcessGroupsThatWereThereBeforeJoinShareTheirServer) {
  for (const std::string& host : {std::string("127.0.0.1"), std::string("127.0.1.1"), testing::name_of_this_host()}) {
    SCOPED_TRACE(host);
    run("before", host);
  }
}

TEST(TorchStore, ProcessGroupsThatComeAfterJoinShareItsServerOrTakeAPortOfTheirOwn) {
  for (const std::string& host : {std::string("127.0.0.1"), std::string("127.0.1.1"), testing::name_of_this_host()}) {
    SCOPED_TRACE(host);
    const bool reached = net::reached_at_its_name(net::address_of_own_store(host, false));
    EXPECT_TRUE(reached || host != "127.0.0.1");
    run("after", host, !reached);
  }
}

TEST(TorchStore, AStoreThatTorchWillNotReachSaysSoOnce) {
  for (const auto& [host, words] : {std::pair("127.0.0.1", 0), std::pair("127.0.1.1", 1)}) {
    testing::CapturedLog captured;
    Worker::join({}, {.rank = 0, .world_size = 1, .master_address = host, .master_port = testing::free_port()})
        ->leave();
    const std::string log = captured.take();
    int found = 0;
    for (size_t at = log.find("MASTER_ADDR=127.0.0.1"); at != std::string::npos;
         at = log.find("MASTER_ADDR=127.0.0.1", at + 1))
      ++found;
    EXPECT_EQ(found, words) << host << ": " << log;
  }
}

}  // namespace
}  // namespace gradwire
