// A worker with few descriptors and little memory left, while processes of its user connect to it by the thousand and
// never say who they are.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <sstream>
#include <thread>

#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "gradwire/gradwire.h"
#include "gradwire/net/unix_socket.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/processes.h"

#include "tests/support/memory.h"
#include "tests/support/sanitized.h"
#include "tests/support/store_file.h"
#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;

constexpr Function<int(int)> add_one{"add_one"};
constexpr Function<int64_t(at::Tensor)> count{"count"};
// The besieged worker calls its member until it is told to stop; what its `get` threw that is no Error, if anything.
constexpr Function<std::string()> call_back{"call_back"};
constexpr Function<void()> stop{"stop"};

constexpr int connections = 4000;

struct State {
  std::atomic<bool> stopped = false;
  std::atomic<int> answers = 0;
};

Registry make_registry(const std::shared_ptr<State>& state = std::make_shared<State>()) {
  Registry registry;
  registry.add(add_one, [](int x) { return x + 1; });
  registry.add(count, [](const at::Tensor& tensor) { return tensor.numel(); });
  registry.add(stop, [state] { state->stopped = true; });
  registry.add(call_back, [state]() -> std::string {
    const Peer member = Worker::current().peer("member");
    while (!state->stopped) try {
        if (member.call(add_one, state->answers.load()).get() == state->answers + 1) ++state->answers;
      } catch (const Error&) {
        // Short of descriptors or memory: allowed, and nothing else is.
      } catch (const std::exception& error) {
        return fmt::format("its get threw no Error: {}", error.what());
      }
    return "";
  });
  return registry;
}

// "MEBIBYTES STORE": a worker in a process that may open 200 files and, once it has joined, has so many addresses left.
// No timer of its own closes a stranger's connection.
int besieged(testing::Child& me) {
  const rlimit files{.rlim_cur = 200, .rlim_max = 200};
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) return 1;
  std::istringstream given(me.argument());
  size_t mebibytes = 0;
  std::string store;
  given >> mebibytes >> store;
  const auto state = std::make_shared<State>();
  auto worker = Worker::join(make_registry(state), {.name = "besieged", .store_file = store, .peer_timeout = 10min});
  const size_t addresses = testing::process_memory().mapped + (mebibytes << 20U);
  const rlimit memory{.rlim_cur = addresses, .rlim_max = addresses};
  if (setrlimit(RLIMIT_AS, &memory) != 0) return 1;
  me.say(WorkerAccess::core(*worker).record().unix_path);
  me.hear();
  worker->leave();
  return state->answers > 0 ? 0 : 2;
}

// A socket's path: makes all the connections, of which it keeps as many as it may have files. Some say half a Hello.
int flood(testing::Child& me) {
  const size_t most_kept = 700;
  std::vector<net::Descriptor> kept;
  int made = 0;
  // An attempt may find the queue full.
  for (int attempts = 0; made < connections && attempts < 400 * connections; ++attempts) {
    net::UnixConnection connection = net::connect_to_unix_socket(me.argument());
    if (!connection.socket) {
      std::this_thread::sleep_for(50us);
      continue;
    }
    if (++made % 3 == 0) ::send(connection.socket.get(), "\x7f\1\0\0\1\0", 6, MSG_NOSIGNAL);
    if (kept.size() >= most_kept) kept.erase(kept.begin(), kept.begin() + most_kept / 2);
    kept.push_back(std::move(connection.socket));
  }
  me.say(std::to_string(made));
  me.hear();
  return 0;
}

class Flood : public ::testing::TestWithParam<int> {};

TEST_P(Flood, W11_AWorkerWithoutDescriptorsAndMemoryServesItsMembers) {
  if (testing::shadow_memory) GTEST_SKIP() << testing::without_address_space;
  if (testing::undefined_sanitizer) GTEST_SKIP() << testing::without_descriptors;
  const testing::StoreFile store;
  auto process = testing::Processes().start(besieged, fmt::format("{} {}", GetParam(), store.path));
  const std::string path = process->hear();
  auto member = Worker::join(make_registry(), {.name = "member", .store_file = store.path});
  const Peer peer = member->wait_for("besieged", 30s);
  ASSERT_EQ(peer.call(add_one, 1).get(), 2);
  Future<std::string> what_it_got = peer.with_timeout(10min).call(call_back);

  auto strangers = testing::Processes().start(flood, path);
  std::future<std::string> made = std::async(std::launch::async, [&] { return strangers->hear(300s); });
  int served = 0;
  const auto ask = [&] { EXPECT_EQ(peer.call(add_one, served).get(), served + 1); };
  // While they come, and then with those that stay.
  for (int after = 0; after < 200; after += made.wait_for(0s) == std::future_status::ready ? 1 : 0) {
    ask();
    ++served;
    if (served % 16 == 0) try {
        EXPECT_EQ(peer.call(count, at::ones({1 << 18})).get(), 1 << 18);
      } catch (const OverloadedError&) {
        // It has no memory for the tensor.
      }
  }
  EXPECT_EQ(made.get(), std::to_string(connections));
  {
    // While the strangers keep their connections.
    auto newcomer = Worker::join(make_registry(), {.name = "newcomer", .store_file = store.path});
    EXPECT_EQ(newcomer->peer("besieged").with_timeout(30s).call(add_one, 1).get(), 2);
    newcomer->leave();
  }

  peer.call(stop).get();
  EXPECT_EQ(what_it_got.get(), "");
  strangers->say("end");
  EXPECT_EQ(strangers->wait(), 0);
  ask();
  member->leave();
  process->say("end");
  EXPECT_EQ(process->wait(), 0) << "it has been served, and was not ended by an exception";
}

INSTANTIATE_TEST_SUITE_P(MebibytesLeft, Flood, ::testing::Values(96, 16));

}  // namespace
}  // namespace gradwire
