// The calls of one worker: those under way from here, and the functions that run for others.
//
//   Q1  a future completes exactly once: result, error, timeout, cancellation or death
//   Q2  a request is executed at most once, and, if both live, exactly once
//   Q3  after a timeout or a cancellation a late reply is dropped, and what it carried is released at both ends
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "gradwire/base/mutex.h"
#include "gradwire/rpc/cancellation.h"
#include "gradwire/rpc/deadlines.h"
#include "gradwire/rpc/exchange.h"
#include "gradwire/rpc/forgotten_context.h"
#include "gradwire/rpc/future_state.h"
#include "gradwire/rpc/latency.h"
#include "gradwire/rpc/registry.h"
#include "gradwire/rpc/trace.h"

namespace gradwire {

// Any thread.
class Calls : public std::enable_shared_from_this<Calls> {
 public:
  // With its handlers in the exchange. Functions run with `core` current.
  struct Place {
    std::weak_ptr<WorkerCore> core;
    std::string name;
    Incarnation incarnation{};
    std::shared_ptr<net::Runtime> runtime;
    std::shared_ptr<Exchange> exchange;
    std::shared_ptr<Trace> trace;  // null: none is kept
    int max_threads = 0;
  };
  static std::shared_ptr<Calls> make(Place place, Registry registry);

  // Begins the call; all that goes wrong afterwards completes the state. Waits while there is no room for the request,
  // but not in a Task. Throws InvalidArgumentError if an argument cannot travel.
  void start(std::shared_ptr<const net::Record> peer, const Target& target, wire::Payload arguments,
             const std::shared_ptr<FutureState>& state, net::Duration timeout) GRADWIRE_EXCLUDES(mutex_);
  void cancel(uint64_t call) GRADWIRE_EXCLUDES(mutex_);
  // What was current when the call was made; null if it is over, or was made at another callee.
  std::shared_ptr<void> context_of(uint64_t call, Incarnation callee) GRADWIRE_EXCLUDES(mutex_);
  // Fails all calls under way: the worker is closing.
  void fail_all(const std::string& why) GRADWIRE_EXCLUDES(mutex_);

  // One of the threads that this worker may have in functions. Throws OverloadedError if there are none left: endless
  // recursion ends here, in words.
  class Occupied {
   public:
    explicit Occupied(Calls& calls);
    ~Occupied() { --calls_.threads_in_functions_; }
    Occupied(const Occupied&) = delete;
    Occupied& operator=(const Occupied&) = delete;

   private:
    Calls& calls_;
  };

  // How much goes on, for leaving.
  struct Activity {
    size_t calls_under_way = 0;
    size_t functions_running = 0;
    // Between this worker and others that live.
    uint64_t requests_sent = 0;
    uint64_t requests_received = 0;
  };
  Activity activity() GRADWIRE_EXCLUDES(mutex_);
  // The name of the function that runs here, or began the Task or continuation that does; none once it has answered.
  std::optional<std::string> function_here() GRADWIRE_EXCLUDES(mutex_);
  // What was done so far.
  struct Totals {
    uint64_t failed = 0;     // without those that were cancelled
    uint64_t cancelled = 0;  // by their owners, or because the worker left
    Latency calls;           // those that are over, from here
    Latency queued;          // of functions for others, before they began
    Latency functions;       // from their beginning to their answer
  };
  Totals totals() const;
  // Null if none is kept.
  Trace* trace() const { return place_.trace.get(); }
  // The names of those whose answer is waited for.
  std::string whom_called() GRADWIRE_EXCLUDES(mutex_);
  // Called once, on the loop, when no call is under way and no function runs.
  void when_idle(std::function<void()> told) GRADWIRE_EXCLUDES(mutex_);

  const std::shared_ptr<net::Runtime>& runtime() const { return place_.runtime; }
  const std::string& name() const { return place_.name; }
  const Registry& registry() const { return registry_; }

 private:
  Calls(Place place, Registry registry) : place_(std::move(place)), registry_(std::move(registry)) {}

  struct Pending {
    std::shared_ptr<FutureState> state;
    std::shared_ptr<const net::Record> peer;
    std::string target;
    net::Duration timeout{};
    net::Time began;
    std::optional<Deadlines::Place> deadline;
    std::shared_ptr<void> context;  // in use until the call is over
  };
  class Served;
  struct Counts {
    uint64_t sent = 0;
    uint64_t received = 0;
  };

  // As a caller.
  // Only its own callee may answer a call; none: whoever it is.
  std::optional<Pending> take(uint64_t call, Incarnation callee = Incarnation::none) GRADWIRE_EXCLUDES(mutex_);
  void fail(const Pending& pending, std::exception_ptr error);
  void give_up(const Pending& pending, const std::string& why);
  void reply_arrived(const net::Record& from, Received received);
  void arm(net::Time at) GRADWIRE_REQUIRES(mutex_);
  void expire(net::Time timer) GRADWIRE_EXCLUDES(mutex_);
  void take_back_count(Incarnation peer) GRADWIRE_EXCLUDES(mutex_);
  void tell_cancel(const net::Record& peer, uint64_t call);
  void peer_gone(const net::Record& peer, GoneReason reason, const std::string& why) GRADWIRE_EXCLUDES(mutex_);

  // As a callee.
  void request_arrived(const Exchange::From& from, Received received) GRADWIRE_EXCLUDES(mutex_);
  void cancel_arrived(const net::Record& from, const Received& received) GRADWIRE_EXCLUDES(mutex_);
  void run(const std::shared_ptr<Served>& served);
  // No one waits for them any more.
  void cancel_served_for(Incarnation caller) GRADWIRE_EXCLUDES(mutex_);
  void has_answered(const Served& served) GRADWIRE_EXCLUDES(mutex_);

  void look_whether_idle() GRADWIRE_REQUIRES(mutex_);

  const Place place_;
  const Registry registry_;

  std::atomic<uint64_t> next_call_ = 1;
  std::atomic<int> threads_in_functions_ = 0;
  std::atomic<uint64_t> failed_ = 0;
  std::atomic<uint64_t> cancelled_ = 0;
  LatencyCounts calls_, queued_, functions_;
  ForgottenContext forgotten_context_;

  Mutex mutex_;
  bool closed_ GRADWIRE_GUARDED_BY(mutex_) = false;
  std::unordered_map<uint64_t, Pending> pending_ GRADWIRE_GUARDED_BY(mutex_);
  Deadlines deadlines_ GRADWIRE_GUARDED_BY(mutex_);
  // When the outstanding timers are due, the earliest last.
  std::vector<net::Time> timers_ GRADWIRE_GUARDED_BY(mutex_);
  std::unordered_map<Id, std::weak_ptr<Served>> served_ GRADWIRE_GUARDED_BY(mutex_);  // by caller and call
  std::unordered_map<Incarnation, Counts> counts_ GRADWIRE_GUARDED_BY(mutex_);
  std::function<void()> when_idle_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire
