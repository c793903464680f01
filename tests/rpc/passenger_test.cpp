// The seam for the layers above: what rides along on messages.
#include "gradwire/rpc/passenger.h"

#include <atomic>
#include <mutex>
#include <thread>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/rpc/call_messages.h"
#include "gradwire/rpc/exchange.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/thrown.h"
#include "tests/support/wait.h"

namespace gradwire {
namespace {

using testing::Cluster;

constexpr Function<at::Tensor(at::Tensor)> negate{"negate"};
constexpr Function<bool()> has_grad_mode{"has_grad_mode"};

// What all the test's passengers saw.
struct Log {
  std::mutex mutex;
  std::vector<std::string> lines;
  int bags = 0;
  std::atomic<net::MessageType> unreadable{};  // the sections of such messages
  void add(const std::string& line) {
    const std::scoped_lock lock(mutex);
    lines.push_back(line);
  }
  size_t count(const std::string& line) {
    const std::scoped_lock lock(mutex);
    return static_cast<size_t>(std::ranges::count(lines, line));
  }
};

// Writes how many tensors go, in the queueing step; on arrival looks at their descriptions; adds one to each tensor
// before it is used; and makes a text current in the function.
class Rider : public Passenger {
 public:
  Rider(std::shared_ptr<Log> log, std::shared_ptr<Exchange> exchange)
      : log_(std::move(log)), exchange_(std::move(exchange)) {}
  uint8_t number() const override { return 200; }

  std::unique_ptr<Ticket> prepare(const net::Message& message, const std::shared_ptr<const net::Record>& to) override {
    if (message.type != request_type && message.type != reply_type) return nullptr;
    struct Counted : Ticket {
      void board(wire::ByteWriter& section) override {
        if (count > 0) section.put(count);
      }
      uint32_t count = 0;
    };
    auto ticket = std::make_unique<Counted>();
    ticket->count = static_cast<uint32_t>(message.payload.tensors.size());
    log_->add("prepared for " + to->name);
    return ticket;
  }

  std::unique_ptr<Bag> arrived(const std::shared_ptr<const net::Record>& from, net::MessageType type,
                               std::string_view section, const std::vector<wire::TensorDescription>& tensors) override {
    if (log_->unreadable == type) throw wire::MalformedError("it makes no sense");
    EXPECT_EQ(wire::ByteReader(section).take<uint32_t>(), tensors.size());
    log_->add((type == request_type ? "request from " : "reply from ") + from->name);
    struct AddsOne : Bag {
      explicit AddsOne(std::shared_ptr<Log> given) : log(std::move(given)) {
        const std::scoped_lock lock(log->mutex);
        ++log->bags;
      }
      ~AddsOne() override {
        const std::scoped_lock lock(log->mutex);
        --log->bags;
      }
      void unload(wire::Payload& payload) override {
        for (at::Tensor& tensor : payload.tensors) tensor.add_(1);
      }
      void enter(Surroundings& surroundings) override { surroundings.no_grad = true; }
      std::shared_ptr<Log> log;
    };
    return std::make_unique<AddsOne>(log_);
  }

  void peer_gone(const net::Record& peer, GoneReason) override { log_->add(peer.name + " gone"); }
  void begins_to_leave() override { log_->add(exchange_->record().name + " begins to leave"); }
  void leaving() override { log_->add(exchange_->record().name + " leaves"); }
  void closed() override { log_->add("closed"); }

 private:
  const std::shared_ptr<Log> log_;
  const std::shared_ptr<Exchange> exchange_;
};

Registry make_registry(const std::shared_ptr<Log>& log) {
  Registry registry;
  registry.add(negate, [](const at::Tensor& x) {
    if (c10::GradMode::is_enabled()) throw std::logic_error("nothing was brought");
    return x.neg();
  });
  registry.add(has_grad_mode, [] { return c10::GradMode::is_enabled(); });
  registry.add_passenger([log](const PassengerPlace& place) { return std::make_shared<Rider>(log, place.exchange); });
  return registry;
}

TEST(Passenger, RidesOnRequestsAndRepliesToOthersAndToOneself) {
  auto log = std::make_shared<Log>();
  Cluster cluster(2, make_registry(log));
  for (const std::string to : {"worker1", "worker0"}) {
    const at::Tensor small = cluster[0].peer(to).call(negate, at::ones({2})).get();
    EXPECT_TRUE(small.equal(at::full({2}, -(1.0 + 1) + 1))) << small;
    const at::Tensor large = cluster[0].peer(to).call(negate, at::ones({1 << 20})).get();
    EXPECT_TRUE(large.equal(at::full({1 << 20}, -1.0)));
  }
  EXPECT_EQ(log->count("request from worker0"), 4U);
  EXPECT_EQ(log->count("reply from worker1"), 2U);
  EXPECT_EQ(log->count("reply from worker0"), 2U);
  // A message without a section brings nothing.
  EXPECT_TRUE(cluster[0].peer(1).call(has_grad_mode).get());
  cluster.kill("worker1");
  EXPECT_TRUE(testing::eventually([&] { return log->count("worker1 gone") == 1; }));
  EXPECT_TRUE(testing::eventually([&] {
    const std::scoped_lock lock(log->mutex);
    return log->bags == 0;
  }));
}

TEST(Passenger, IsHandledOnArrivalAlsoIfTheCallIsOverOrRefused) {
  auto log = std::make_shared<Log>();
  Cluster cluster(2, make_registry(log));
  cluster.network().cut("worker0", "worker1");
  auto future = cluster[0].peer(1).with_timeout(std::chrono::milliseconds(20)).call(negate, at::ones({2}));
  EXPECT_THROW(future.get(), TimeoutError);
  cluster.network().heal("worker0", "worker1");
  EXPECT_THROW(cluster[0].peer(1).call<int>("unknown", at::ones({2})).get(), NotFoundError);
  EXPECT_TRUE(testing::eventually([&] { return log->count("reply from worker1") == 1; }));  // Q3: and dropped
  EXPECT_EQ(log->count("request from worker0"), 2U);
  EXPECT_TRUE(testing::eventually([&] {
    const std::scoped_lock lock(log->mutex);
    return log->bags == 0;
  }));
}

TEST(Passenger, ASectionThatCannotBeReadFailsTheCallInsteadOfHangingIt) {
  auto log = std::make_shared<Log>();
  Cluster cluster(2, make_registry(log));
  for (const auto& [type, who] : {std::pair(request_type, "worker1"), std::pair(reply_type, "worker0")}) {
    log->unreadable = type;
    EXPECT_THAT(testing::thrown<InvalidArgumentError>([&] { cluster[0].peer(1).call(negate, at::ones({2})).get(); }),
                ::testing::AllOf(::testing::HasSubstr(std::string(who) + " cannot use what"),
                                 ::testing::HasSubstr("it makes no sense")));
  }
  log->unreadable = net::MessageType{};
  EXPECT_TRUE(cluster[0].peer(1).call(negate, at::ones({2})).get().equal(at::full({2}, -1.0)));
}

TEST(Passenger, HearsThatItsWorkerBeginsToLeaveBeforeTheOthersAreReady) {
  auto log = std::make_shared<Log>();
  Cluster cluster(2, make_registry(log));
  std::unique_ptr<Worker> worker0 = cluster.take("worker0");
  std::thread leaves([&] { worker0->leave(); });
  EXPECT_TRUE(testing::eventually([&] { return log->count("worker0 begins to leave") == 1; }));
  EXPECT_EQ(log->count("worker0 leaves"), 0U);  // worker1 has not been asked yet
  cluster[1].leave();
  leaves.join();
  EXPECT_EQ(log->count("worker1 begins to leave"), 1U);
  EXPECT_EQ(log->count("worker0 leaves"), 1U);
  EXPECT_EQ(log->count("closed"), 2U);
}

}  // namespace
}  // namespace gradwire
