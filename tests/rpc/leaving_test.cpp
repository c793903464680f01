// A member that leaves, seen by the collector: here by one that the test plays itself.
#include "gradwire/rpc/leaving.h"

#include <thread>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "gradwire/gradwire.h"
#include "gradwire/net/memory_network.h"
#include "gradwire/rpc/call_messages.h"
#include "gradwire/rpc/worker_core.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;

constexpr Function<int(int)> echo{"echo"};
// docs/protocol.md, "Leaving".
constexpr net::MessageType report_type{19};
constexpr net::MessageType round_type{20};
constexpr net::MessageType end_type{21};

struct Report {
  uint64_t round = 0;
  bool idle = false;
  uint64_t received = 0;
};

class Collector : public net::SessionHandler {
 public:
  void message_arrived(net::Session&, net::Delivery delivery) noexcept override {
    MutexLock lock(mutex_);
    if (delivery.type == reply_type) ++replies_;
    if (delivery.type != report_type) return;
    wire::ByteReader head(delivery.head);
    Report report;
    report.round = head.take<uint64_t>();
    report.idle = head.take<bool>();
    for (int i = 0; i < 3; ++i) (void)head.take<uint64_t>();  // calls, functions, sent
    report.received = head.take<uint64_t>();
    reports_.push_back(report);
  }
  void peer_gone(net::Session&, GoneReason, const std::string&) noexcept override {}
  int replies() {
    MutexLock lock(mutex_);
    return replies_;
  }
  // The first report for this round in which the member is idle.
  std::optional<Report> idle_in(uint64_t round) {
    MutexLock lock(mutex_);
    for (const Report& report : reports_)
      if (report.round == round && report.idle) return report;
    return {};
  }

 private:
  Mutex mutex_;
  int replies_ GRADWIRE_GUARDED_BY(mutex_) = 0;
  std::vector<Report> reports_ GRADWIRE_GUARDED_BY(mutex_);
};

TEST(Leaving, F4_ARoundIsAnsweredWithNumbersFromAfterItsBeginning) {
  Registry registry;
  registry.add(echo, [](int x) { return x; });
  const auto runtime = net::Runtime::of_process();
  const auto network = std::make_shared<net::MemoryNetwork>(runtime);
  WorkerOptions options{.name = "worker1", .rank = 1, .world_size = 2};
  options.store = c10::make_intrusive<c10d::HashStore>();
  options.transport = network->transport();

  const auto collector = std::make_shared<Collector>();
  const auto endpoint = net::Endpoint::open({.loop = runtime,
                                             .transport = network->transport(),
                                             .budget = std::make_shared<net::SegmentBudget>(0),
                                             .handler = collector},
                                            {.name = "worker0", .rank = 0, .incarnation = make_incarnation()}, {});
  net::MeetingPoint meeting_point(open_store(options));
  EXPECT_EQ(meeting_point.claim_name(endpoint->record(), {}), std::nullopt);
  meeting_point.publish(endpoint->record());
  std::thread waits([&] { meeting_point.wait_for_ranks("worker0", 2, std::chrono::steady_clock::now() + 30s); });
  const std::unique_ptr<Worker> worker = Worker::join(registry, options);
  waits.join();
  WorkerCore& core = WorkerAccess::core(*worker);
  const std::shared_ptr<net::Session> session = endpoint->session(core.record());

  // In the middle of its first report a round begins, and a request comes and is answered.
  std::atomic<bool> paused = false;
  core.leaving()->pause_between_readings([&] {
    if (paused.exchange(true)) return;
    wire::ByteWriter round;
    round.put(uint64_t{1});
    session->send({.type = round_type, .head = round.take()}, net::Admission::always);
    wire::ByteWriter request;
    request.put(uint64_t{7});
    request.put(static_cast<uint8_t>(Target::Kind::function));
    request.put_string(echo.name());
    request.put_string(signature<int, int>());
    session->send({.type = request_type, .head = request.take(), .payload = wire::encode(5)}, net::Admission::always);
    EXPECT_TRUE(testing::eventually([&] { return collector->replies() == 1; }));
  });
  std::thread leaves([&] { EXPECT_NO_THROW(worker->leave(60s)); });
  EXPECT_TRUE(testing::eventually([&] { return collector->idle_in(1).has_value(); }));
  if (const std::optional<Report> report = collector->idle_in(1)) {
    EXPECT_EQ(report->received, 1U) << "the request was received before the round's report";
  }
  session->send({.type = end_type}, net::Admission::always);
  leaves.join();
  endpoint->close();
}

}  // namespace
}  // namespace gradwire
