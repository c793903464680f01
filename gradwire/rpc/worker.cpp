#include "gradwire/rpc/worker.h"

#include <cstdlib>
#include <future>

#include <fmt/format.h>

#include "gradwire/net/meeting_point.h"
#include "gradwire/net/socket_transport.h"
#include "gradwire/rpc/calls.h"

namespace gradwire {
namespace {

constexpr size_t segment_bound = size_t{4} << 30U;
constexpr auto goodbye_limit = std::chrono::seconds(5);

std::string environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

int number_from(const char* name, int otherwise) {
  const std::string text = environment(name, std::to_string(otherwise));
  try {
    size_t used = 0;
    const int value = std::stoi(text, &used);
    if (used == text.size()) return value;
  } catch (const std::logic_error&) {
    // Said below.
  }
  throw InvalidArgumentError(fmt::format("{}={} in the environment is not a number", name, text));
}

}  // namespace

WorkerOptions WorkerOptions::from_environment() {
  WorkerOptions options;
  options.rank = number_from("RANK", 0);
  options.world_size = number_from("WORLD_SIZE", 1);
  options.name = environment("GRADWIRE_NAME", "");
  options.store_file = environment("GRADWIRE_STORE", "");
  options.master_address = environment("MASTER_ADDR", options.master_address);
  options.master_port = static_cast<uint16_t>(number_from("MASTER_PORT", options.master_port));
  return options;
}

struct Worker::Parts {
  WorkerOptions options;
  std::unique_ptr<net::MeetingPoint> meeting_point;
  std::shared_ptr<net::Runtime> runtime;
  std::shared_ptr<Calls> calls;
  std::shared_ptr<net::Endpoint> endpoint;
};

Worker::Worker(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

std::unique_ptr<Worker> Worker::join(const Registry& registry, WorkerOptions options) {
  if (options.name.empty()) options.name = fmt::format("worker{}", options.rank);
  auto parts = std::make_unique<Parts>();
  parts->options = options;
  parts->meeting_point = std::make_unique<net::MeetingPoint>(
      options.store_file.empty()
          ? net::open_tcp_store(options.master_address, options.master_port, options.rank == 0, options.join_timeout)
          : net::open_file_store(options.store_file));
  parts->runtime = net::Runtime::of_process();
  parts->calls = std::make_shared<Calls>(options.name, registry, parts->runtime);
  parts->endpoint =
      net::Endpoint::open({.loop = parts->runtime,
                           .transport = net::make_socket_transport(parts->runtime, {}),
                           .budget = std::make_shared<net::SegmentBudget>(segment_bound),
                           .handler = parts->calls},
                          {.name = options.name, .rank = options.rank, .incarnation = make_incarnation()}, {});
  parts->calls->attach(parts->endpoint);
  parts->meeting_point->publish(parts->endpoint->record());
  for (int rank = 0; rank < options.world_size; ++rank) parts->meeting_point->find(rank, options.join_timeout);
  return std::unique_ptr<Worker>(new Worker(std::move(parts)));
}

Worker::~Worker() {
  std::promise<void> left;
  parts_->endpoint->leave(goodbye_limit, [&left] { left.set_value(); });
  left.get_future().wait();
  parts_->endpoint->close();
}

int Worker::rank() const { return parts_->options.rank; }

const std::string& Worker::name() const { return parts_->options.name; }

Peer Worker::peer(const std::string& name) {
  return Peer(parts_->calls, parts_->meeting_point->find(name, parts_->options.join_timeout));
}

Peer Worker::peer(int rank) {
  return Peer(parts_->calls, parts_->meeting_point->find(rank, parts_->options.join_timeout));
}

void Worker::leave() {
  parts_->meeting_point->gather("gradwire/leaving", parts_->options.world_size, parts_->options.join_timeout);
}

std::shared_ptr<CallState> Peer::start(std::string_view function, wire::Payload arguments) const {
  return calls_->start(record_, function, std::move(arguments));
}

}  // namespace gradwire
