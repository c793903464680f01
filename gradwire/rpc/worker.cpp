#include "gradwire/rpc/worker.h"

#include <future>

#include <fmt/format.h>

#include "gradwire/net/meeting_point.h"
#include "gradwire/net/socket_transport.h"
#include "gradwire/rpc/calls.h"

namespace gradwire {
namespace {

constexpr size_t segment_bound = size_t{4} << 30U;
constexpr auto goodbye_limit = std::chrono::seconds(5);

}  // namespace

struct Worker::Parts {
  WorkerOptions options;
  std::unique_ptr<net::MeetingPoint> meeting_point;
  std::shared_ptr<net::Runtime> runtime;
  std::shared_ptr<Calls> calls;
  std::shared_ptr<net::Endpoint> endpoint;
};

Worker::Worker(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

std::unique_ptr<Worker> Worker::join(const Registry& registry, WorkerOptions options) {
  if (!options.rank || !options.world_size) throw InvalidArgumentError("growing groups are not there yet");
  if (options.name.empty()) options.name = fmt::format("worker{}", *options.rank);
  check_worker_name(options.name);
  auto parts = std::make_unique<Parts>();
  parts->options = options;
  parts->meeting_point = std::make_unique<net::MeetingPoint>(open_store(options));
  parts->runtime = net::Runtime::of_process();
  parts->calls = std::make_shared<Calls>(options.name, registry, parts->runtime);
  parts->endpoint =
      net::Endpoint::open({.loop = parts->runtime,
                           .transport = net::make_socket_transport(parts->runtime, {}),
                           .budget = std::make_shared<net::SegmentBudget>(segment_bound),
                           .handler = parts->calls},
                          {.name = options.name, .rank = *options.rank, .incarnation = make_incarnation()}, {});
  parts->calls->attach(parts->endpoint);
  parts->meeting_point->publish(parts->endpoint->record());
  for (int rank = 0; rank < *options.world_size; ++rank) parts->meeting_point->find(rank, options.join_timeout);
  return std::unique_ptr<Worker>(new Worker(std::move(parts)));
}

Worker::~Worker() {
  std::promise<void> left;
  parts_->endpoint->leave(goodbye_limit, [&left] { left.set_value(); });
  left.get_future().wait();
  parts_->endpoint->close();
}

int Worker::rank() const { return *parts_->options.rank; }

const std::string& Worker::name() const { return parts_->options.name; }

Peer Worker::peer(const std::string& name) {
  return Peer(parts_->calls, parts_->meeting_point->find(name, parts_->options.join_timeout));
}

Peer Worker::peer(int rank) {
  return Peer(parts_->calls, parts_->meeting_point->find(rank, parts_->options.join_timeout));
}

void Worker::leave() {
  parts_->meeting_point->gather("gradwire/leaving", *parts_->options.world_size, parts_->options.join_timeout);
}

std::shared_ptr<CallState> Peer::start(std::string_view function, wire::Payload arguments) const {
  return calls_->start(record_, function, std::move(arguments));
}

}  // namespace gradwire
