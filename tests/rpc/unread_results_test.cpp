// A caller that does not read what it asked for: the memory that its results take is bounded.
#include <sys/socket.h>

#include <atomic>
#include <csignal>
#include <thread>

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "gradwire/gradwire.h"
#include "gradwire/net/outgoing.h"
#include "gradwire/net/unix_socket.h"
#include "gradwire/rpc/call_messages.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/cluster.h"
#include "gradwire/testing/processes.h"

#include "tests/support/store_file.h"
#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;

constexpr Function<at::Tensor(int)> make_tensor{"make_tensor"};
constexpr Function<int(int)> add_one{"add_one"};
constexpr Function<int64_t(int)> there_and_back{"there_and_back"};

constexpr int64_t result_size = int64_t{1} << 20U;
constexpr size_t bound = 4 * result_size;
constexpr int requests = 100;

struct Made {
  std::atomic<int> tensors = 0;
};

Registry make_registry(const std::shared_ptr<Made>& made = std::make_shared<Made>()) {
  Registry registry;
  registry.add(make_tensor, [made](int value) {
    ++made->tensors;
    return at::full({result_size}, value, at::kByte);
  });
  registry.add(add_one, [](int x) { return x + 1; });
  return registry;
}

// A process that asks for results and never reads a byte.
class Mute {
 public:
  explicit Mute(const net::Record& callee) : connection_(net::connect_to_unix_socket(callee.unix_path)) {
    net::Hello hello;
    hello.mine = callee;
    hello.mine.name = "mute";
    hello.mine.rank = -1;
    hello.mine.incarnation = incarnation;
    hello.yours = callee.incarnation;
    hello.attempt = 1;
    write(net::encode_hello(hello));
  }
  void ask(uint64_t call) {
    wire::ByteWriter head;
    head.put(call);
    head.put(uint8_t{0});  // a function
    head.put_string(make_tensor.name());
    head.put_string(signature<at::Tensor, int>());
    net::Outgoing outgoing;
    net::encode_message(outgoing, {.type = request_type, .head = head.take(), .payload = wire::encode(7)}, nullptr,
                        *blocks_);
    net::patch_number(outgoing.frame.data(), call);
    write(outgoing.frame);
  }
  const Incarnation incarnation = make_incarnation();

 private:
  void write(const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t count = ::send(connection_.socket.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (count > 0)
        at += static_cast<size_t>(count);
      else if (errno != EAGAIN)
        throw std::runtime_error("the worker has closed the connection");
    }
  }
  net::UnixConnection connection_;
  const std::shared_ptr<net::Blocks> blocks_ =
      std::make_shared<net::Blocks>(nullptr, std::make_shared<net::SegmentBudget>(0));
};

TEST(UnreadResults, W8_NoFunctionBeginsForACallerThatLeavesMuchUnread) {
  const testing::StoreFile store;
  const auto made = std::make_shared<Made>();
  auto worker =
      Worker::join(make_registry(made), {.name = "callee", .store_file = store.path, .max_outgoing_bytes = bound});
  auto other = Worker::join(make_registry(), {.name = "other", .store_file = store.path});
  const auto endpoint = WorkerAccess::core(*worker).endpoint();
  {
    Mute mute(WorkerAccess::core(*worker).record());
    for (int i = 1; i <= requests; ++i) mute.ask(static_cast<uint64_t>(i));
    EXPECT_TRUE(testing::eventually([&] {
      const auto session = endpoint->find(mute.incarnation);
      return session && session->statistics().handled == requests && session->leaves_much_unread();
    }));
    // Others are served meanwhile.
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(other->peer("callee").call(add_one, i).get(), i + 1);
    // Some ran side by side when there was room.
    EXPECT_LT(made->tensors, requests / 2);
    EXPECT_LT(endpoint->find(mute.incarnation)->statistics().held_bytes, (requests / 2) * result_size);
    endpoint->find(mute.incarnation)->end_now(GoneReason::died, "of this test");
  }
  EXPECT_TRUE(testing::eventually([&] { return made->tensors == requests; })) << "none is forgotten";
  EXPECT_EQ(other->peer("callee").call(add_one, 1).get(), 2);
  other->leave();
  worker->leave();
}

// Asks for all the results, says so, and then takes them.
int late_reader(testing::Child& me) {
  auto worker = Worker::join(make_registry(), {.name = "late", .store_file = me.argument()});
  const Peer callee = worker->wait_for("callee", 30s);
  std::vector<Future<at::Tensor>> results;
  for (int i = 0; i < requests; ++i) results.push_back(callee.call(make_tensor, i));
  me.say("asked");
  bool right = true;
  for (int i = 0; i < requests; ++i) right = right && results[static_cast<size_t>(i)].get()[0].item<int>() == i;
  worker->leave();
  return right ? 0 : 1;
}

TEST(UnreadResults, W8_ACallerThatStoodStillGetsAllOfThem) {
  const testing::StoreFile store;
  auto worker =
      Worker::join(make_registry(), {.name = "callee", .store_file = store.path, .max_outgoing_bytes = bound});
  auto late = testing::Processes().start(late_reader, store.path);
  late->expect("asked");
  late->stop();
  auto other = Worker::join(make_registry(), {.name = "other", .store_file = store.path});
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(other->peer("callee").call(add_one, i).get(), i + 1);
  late->signal(SIGCONT);
  EXPECT_EQ(late->wait(), 0);
  other->leave();
  worker->leave();
}

// Each worker waits for the other's results inside of functions that the other waits for.
TEST(UnreadResults, W8_WorkersThatOweEachOtherMuchDoNotWaitForEachOther) {
  const testing::StoreFile store;
  Registry registry = make_registry();
  registry.add(there_and_back, [](int depth) -> int64_t {
    Worker& here = Worker::current();
    const Peer peer = here.peer(1 - here.rank());
    std::vector<Future<at::Tensor>> results;
    for (int i = 0; i < 8; ++i) results.push_back(peer.call(make_tensor, i));
    int64_t sum = depth == 0 ? 0 : peer.call(there_and_back, depth - 1).get();
    for (auto& result : results) sum += result.get().numel();
    return sum;
  });
  testing::Cluster cluster(2, registry, {.max_outgoing_bytes = static_cast<size_t>(result_size)});
  std::vector<Future<int64_t>> both;
  for (int i = 0; i < 4; ++i)
    for (const int rank : {0, 1}) both.push_back(cluster[1 - rank].peer(rank).call(there_and_back, 5));
  for (auto& each : both) EXPECT_EQ(each.get(), 6 * 8 * result_size);
}

}  // namespace
}  // namespace gradwire
