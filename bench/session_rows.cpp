// Rows of the net layer: messages between two processes over a session, nothing above it.
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <ATen/ops/ones.h>

#include "gradwire/net/endpoint.h"
#include "gradwire/net/meeting_point.h"
#include "gradwire/net/runtime.h"
#include "gradwire/net/socket_transport.h"
#include "gradwire/testing/processes.h"

#include "row.h"

namespace gradwire::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto plain = net::MessageType{16};     // counted
constexpr auto question = net::MessageType{17};  // answered at once, when all of it is there
constexpr auto answer = net::MessageType{18};

// Answers questions, and counts what arrives.
class Handler : public net::SessionHandler {
 public:
  void message_arrived(net::Session& session, net::Delivery delivery) noexcept override {
    arrived_.fetch_add(1, std::memory_order_relaxed);
    if (delivery.type == question)
      delivery.arrival->when_settled([arrival = delivery.arrival, &session] {
        arrival->take();
        session.send({.type = answer, .head = std::string(40, 'x')}, net::Admission::always);
      });
    if (delivery.type == answer) answers_.fetch_add(1, std::memory_order_release);
    if (net::Waker* waker = waker_) waker->wake();
  }
  void peer_gone(net::Session&, GoneReason, const std::string&) noexcept override {
    gone_at_ = std::chrono::steady_clock::now();
    gone_ = true;
  }
  std::atomic<uint64_t> arrived_ = 0;
  std::atomic<uint64_t> answers_ = 0;
  std::atomic<net::Waker*> waker_ = nullptr;
  std::atomic<std::chrono::steady_clock::time_point> gone_at_{};
  std::atomic<bool> gone_ = false;
};

struct End {
  End(const std::string& name, const std::string& store, bool segments)
      : runtime(net::Runtime::of_process()),
        meeting_point(net::open_file_store(store)),
        handler(std::make_shared<Handler>()) {
    endpoint = net::Endpoint::open({.loop = runtime,
                                    .transport = net::make_socket_transport(runtime, {}),
                                    .budget = std::make_shared<net::SegmentBudget>(size_t{2} << 30U),
                                    .handler = handler},
                                   {.name = name, .incarnation = make_incarnation()}, {.segments = segments});
    if (meeting_point.claim_name(endpoint->record(), {})) std::abort();
  }
  std::shared_ptr<net::Runtime> runtime;
  net::MeetingPoint meeting_point;
  std::shared_ptr<Handler> handler;
  std::shared_ptr<net::Endpoint> endpoint;
};

int serve(testing::Child& me) {
  End end("callee", me.argument().substr(1), me.argument()[0] == 's');
  me.say("ready");
  me.hear();
  return 0;
}

// Two processes with a session between them.
struct Pair {
  explicit Pair(bool segments = true)
      : store(std::filesystem::temp_directory_path() / ("gradwire-bench-" + to_string(make_incarnation()))),
        child(testing::Processes().start(serve, (segments ? "s" : "-") + store)),
        end("caller", store, segments) {
    child->expect("ready");
    session = end.endpoint->session(end.meeting_point.look_up("callee").value());
    end.handler->waker_ = &waker;
  }
  ~Pair() {
    end.endpoint->close();
    std::filesystem::remove(store);
  }
  void ask(net::Message message) {
    const uint64_t before = end.handler->answers_;
    message.type = question;
    session->send(std::move(message), net::Admission::waits_for_room);
    session->wait(waker, [&] { return end.handler->answers_ > before; }, net::Time::max());
  }
  std::string store;
  std::unique_ptr<testing::Process> child;
  End end;
  net::Waker waker;
  std::shared_ptr<net::Session> session;
};

double ping_pong() {
  Pair pair;
  return 1e6 * median_seconds(20000, [&] { pair.ask({.head = std::string(40, 'x')}); });
}

double messages() {
  Pair pair;
  constexpr int count = 100000;
  return count / median_seconds(9, [&] {
           for (int i = 0; i < count - 1; ++i)
             pair.session->wait_for_room(
                 pair.session->send({.type = plain, .head = std::string(40, 'x')}, net::Admission::waits_for_room),
                 net::Time::max());
           pair.ask({});
         });
}

double one_way(size_t megabytes, bool segments) {
  Pair pair(segments);
  const at::Tensor tensor = at::ones({static_cast<int64_t>(megabytes) * 1024 * 1024 / 4});
  return 1e3 * median_seconds(megabytes == 256  ? 9
                              : megabytes == 16 ? 101
                                                : 1001,
                              [&] { pair.ask({.payload = {.tensors = {tensor}}}); });
}

double death_notice() {
  std::vector<double> seconds;
  for (int i = 0; i < 21; ++i) {
    Pair pair;
    pair.ask({});
    const auto start = std::chrono::steady_clock::now();
    pair.child->signal(SIGKILL);
    while (!pair.end.handler->gone_) std::this_thread::sleep_for(50us);
    seconds.push_back(std::chrono::duration<double>(pair.end.handler->gone_at_.load() - start).count());
  }
  return 1e3 * median(std::move(seconds));
}

}  // namespace

std::vector<Row> session_rows() {
  std::vector<Row> rows;
  rows.push_back({"session.ping_pong.64B", "us", ping_pong});
  rows.push_back({"session.messages.64B", "per_second", messages});
  for (size_t size : {1, 16, 256})
    rows.push_back({"session.one_way." + std::to_string(size) + "MB", "ms", [=] { return one_way(size, true); }});
  rows.push_back({"session.one_way.stream.256MB", "ms", [] { return one_way(256, false); }});
  rows.push_back({"session.death_notice", "ms", death_notice});
  return rows;
}

}  // namespace gradwire::bench
