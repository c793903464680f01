#include "gradwire/metrics.h"

#include <fmt/format.h>

#include "gradwire/autograd/contexts.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/rref/reference_report.h"

namespace gradwire {
namespace {

std::string text_of(const Latency& latency) {
  if (latency.count == 0) return "0";
  const auto microseconds = [](std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1000; };
  return fmt::format("{} (mean {:.1f} us, median {:.1f}, 99% within {:.1f}, longest {:.1f})", latency.count,
                     microseconds(latency.mean), microseconds(latency.median), microseconds(latency.p99),
                     microseconds(latency.longest));
}

}  // namespace

Metrics Worker::metrics() {
  Metrics metrics;
  Calls& calls = core_->calls();
  const Calls::Totals totals = calls.totals();
  metrics.calls = totals.calls;
  metrics.calls_failed = totals.failed;
  metrics.calls_cancelled = totals.cancelled;
  metrics.queued = totals.queued;
  metrics.functions = totals.functions;
  const Calls::Activity activity = calls.activity();
  metrics.calls_under_way = activity.calls_under_way;
  metrics.functions_running = activity.functions_running;
  for (const std::shared_ptr<net::Session>& session : core_->endpoint()->sessions()) {
    const net::Session::Statistics statistics = session->statistics();
    metrics.peers += statistics.linked ? 1 : 0;
    metrics.messages_sent += statistics.sent;
    metrics.messages_received += statistics.handled;
    metrics.bytes_sent += statistics.bytes_sent;
    metrics.bytes_received += statistics.bytes_received;
    metrics.bytes_waiting += statistics.held_bytes;
  }
  if (const auto contexts = autograd::Contexts::of(*core_)) metrics.contexts = contexts->report().size();
  const ReferenceReport references = debug();
  metrics.references_owned = references.owned.size();
  metrics.references_held = references.held.size();
  metrics.threads = core_->runtime()->threads().count();
  return metrics;
}

std::string to_string(const Metrics& metrics) {
  return fmt::format(
      "calls: {}, {} failed, {} cancelled, {} under way\n"
      "functions for others: {}, {} running\n"
      "  queued before: {}\n"
      "sent: {} messages, {} bytes ({} waiting); received: {} messages, {} bytes; peers: {}\n"
      "contexts: {}; references: {} owned, {} held; threads: {}",
      text_of(metrics.calls), metrics.calls_failed, metrics.calls_cancelled, metrics.calls_under_way,
      text_of(metrics.functions), metrics.functions_running, text_of(metrics.queued), metrics.messages_sent,
      metrics.bytes_sent, metrics.bytes_waiting, metrics.messages_received, metrics.bytes_received, metrics.peers,
      metrics.contexts, metrics.references_owned, metrics.references_held, metrics.threads);
}

std::ostream& operator<<(std::ostream& out, const Metrics& metrics) { return out << to_string(metrics); }

}  // namespace gradwire
