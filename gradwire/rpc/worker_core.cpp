#include "gradwire/rpc/worker_core.h"

#include <algorithm>
#include <future>

#include <fmt/format.h>

#include "gradwire/base/worker_name.h"
#include "gradwire/net/descriptor_limit.h"
#include "gradwire/net/meeting_point.h"
#include "gradwire/net/memory_limit.h"
#include "gradwire/net/process_exit.h"
#include "gradwire/rpc/tcp_options.h"

namespace gradwire {
namespace {

constexpr auto goodbye_limit = std::chrono::seconds(5);

void check(const WorkerOptions& options) {
  if (options.world_size && *options.world_size < 1)
    throw InvalidArgumentError(fmt::format("a group of {} workers: world_size is 1 or more", *options.world_size));
  if (options.world_size && !options.rank)
    throw InvalidArgumentError(
        "a fixed group (world_size) needs the rank of each worker; without world_size the group "
        "grows, and ranks are handed out");
  if (options.rank && (*options.rank < 0 || (options.world_size && *options.rank >= *options.world_size)))
    throw InvalidArgumentError(fmt::format("rank {} in a group of {}: ranks are 0 to world_size - 1", *options.rank,
                                           options.world_size.value_or(-1)));
  if (options.max_threads < 1) throw InvalidArgumentError("max_threads is 1 or more");
}

// A worker that comes back under its name keeps its rank.
int rank_in_growing_group(net::MeetingPoint& meeting_point, const std::string& name) {
  if (!name.empty())
    if (const std::optional<net::Record> before = meeting_point.look_up(name); before && before->rank >= 0)
      return before->rank;
  return meeting_point.next_rank();
}

}  // namespace

std::shared_ptr<WorkerCore> WorkerCore::join(const Registry& registry, WorkerOptions options) {
  check(options);
  if (!options.name.empty()) check_worker_name(options.name);
  const net::Time deadline = net::deadline_after(options.join_timeout);
  const net::SocketOptions sockets = options.transport ? net::SocketOptions{} : socket_options(options);
  std::shared_ptr<WorkerCore> core(new WorkerCore);
  core->runtime_ = net::Runtime::of_process();
  auto meeting_point = std::make_shared<net::MeetingPoint>(open_store(options), place_of_store(options));
  meeting_point->keep_to(deadline);
  if (!options.rank) options.rank = rank_in_growing_group(*meeting_point, options.name);
  if (options.name.empty()) options.name = fmt::format("worker{}", *options.rank);
  core->options_ = options;
  core->exchange_ = std::make_shared<Exchange>();
  const Incarnation incarnation = make_incarnation();
  core->calls_ = Calls::make({.core = core,
                              .name = options.name,
                              .incarnation = incarnation,
                              .runtime = core->runtime_,
                              .exchange = core->exchange_,
                              .trace = Trace::of(options.name, *options.rank, incarnation),
                              .max_threads = options.max_threads},
                             registry);
  core->membership_ = Membership::make(meeting_point, core->runtime_, core->exchange_);
  if (options.world_size)
    core->leaving_ =
        Leaving::make(*options.rank, *options.world_size, core->exchange_, core->membership_, core->calls_);
  for (const Registry::PassengerMaker& maker : registry.passenger_makers())
    core->passengers_.push_back(maker({.runtime = core->runtime_, .exchange = core->exchange_, .core = core}));
  for (const std::shared_ptr<Passenger>& passenger : core->passengers_) core->exchange_->add(passenger);
  core->view_ =
      std::unique_ptr<Worker>(new Worker(std::shared_ptr<WorkerCore>(std::shared_ptr<void>(), core.get()), false));
  const std::shared_ptr<net::Transport> transport =
      options.transport ? options.transport : net::make_socket_transport(core->runtime_, sockets);
  core->endpoint_ = net::with_descriptors([&] {
    return net::Endpoint::open(
        {.loop = core->runtime_,
         .transport = transport,
         .budget = core->runtime_->segment_budget(),
         .arrivals = core->runtime_->arrival_budget(),
         .handler = core->exchange_},
        {.name = options.name, .rank = *options.rank, .incarnation = incarnation},
        {.peer_timeout = options.peer_timeout,
         .max_outgoing_bytes = options.max_outgoing_bytes,
         .inbox = {.largest_message = std::min(net::InboxLimits().largest_message, net::memory_limit())}});
  });
  core->exchange_->open(core->endpoint_);
  try {
    core->membership_->enter(core->endpoint_, options.world_size, deadline);
    if (options.world_size) meeting_point->wait_for_ranks(options.name, *options.world_size, deadline);
    meeting_point->keep_to(std::chrono::steady_clock::time_point::max());
  } catch (...) {
    core->close();
    throw;
  }
  return core;
}

void WorkerCore::leave(std::chrono::milliseconds timeout) {
  if (net::process_exits()) return close();
  net::Runtime::require_threads();
  if (closed_) return;
  if (const std::optional<std::string> function = calls_->function_here())
    throw InvalidArgumentError(
        fmt::format("\"{}\" runs at {} and calls leave(), which waits until no function runs: it would wait for "
                    "itself. Call leave() outside of functions, for example at the end of main",
                    *function, options_.name),
        options_.name);
  exchange_->announce_beginning_to_leave();
  if (leaving_)
    leaving_->leave(net::deadline_after(timeout));
  else
    wait_until_idle(net::deadline_after(timeout));
  exchange_->announce_leaving();
  close();
}

void WorkerCore::wait_until_idle(std::chrono::steady_clock::time_point deadline) {
  auto idle = std::make_shared<std::promise<void>>();
  calls_->when_idle([idle] { idle->set_value(); });
  const net::Threads::Blocked blocked;
  std::future<void> future = idle->get_future();
  if (deadline == std::chrono::steady_clock::time_point::max()) return future.wait();
  if (future.wait_until(deadline) == std::future_status::ready) return;
  const Calls::Activity activity = calls_->activity();
  calls_->when_idle(nullptr);
  throw TimeoutError(
      fmt::format("{} could not leave in time: {} of its calls are under way (to {}), {} functions run. "
                  "It goes on; call leave again, or destroy the worker to go at once",
                  options_.name, activity.calls_under_way, calls_->whom_called(), activity.functions_running));
}

void WorkerCore::close() {
  if (net::process_exits()) return abandon("ends with its process");  // goodbye takes the threads, which have ended
  if (closed_.exchange(true)) return;
  membership_->close();
  // The members of a fixed group that leave together need not be told.
  if (!leaving_ || !leaving_->ended()) membership_->say_left();
  calls_->fail_all(options_.name + " leaves the group");
  exchange_->close();
  const net::Threads::Blocked blocked;
  auto left = std::make_shared<std::promise<void>>();
  endpoint_->leave(goodbye_limit, [left] { left->set_value(); });
  left->get_future().wait();
  endpoint_->close();
  exchange_->announce_closed();
}

void WorkerCore::abandon(const std::string& how) {
  if (closed_.exchange(true)) return;
  endpoint_->close();
  calls_->fail_all(options_.name + " " + how);
  exchange_->close();
  exchange_->announce_closed();
}

}  // namespace gradwire
