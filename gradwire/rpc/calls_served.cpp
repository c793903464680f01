// As a callee: the functions that run here for others, and for this worker itself.
#include <c10/core/GradMode.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>

#include "gradwire/rpc/call_messages.h"
#include "gradwire/rpc/calls.h"
#include "gradwire/rpc/error_on_wire.h"

namespace gradwire {

// One request. Held by whoever still has to answer it; answers for one that never does.
class Calls::Served : public Reply, public std::enable_shared_from_this<Served> {
 public:
  Served(std::shared_ptr<Calls> calls, Exchange::From from, uint64_t call, Target target, Received received)
      : calls_(std::move(calls)),
        from_(std::move(from)),
        call_(call),
        target_(std::move(target)),
        received_(std::move(received)),
        keeper_(received_.luggage.keeper()),
        arrived_(calls_->runtime()->now()) {}
  ~Served() override {
    if (!answered_) refuse(CancelledError("the function ended without an answer"));
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  bool keeps() const override { return keeper_ != nullptr; }
  void keep(Kept kept) override {
    keeper_->keep(std::move(kept));
    answer_kept();
  }
  void give(wire::Payload result) override {
    if (!context_) calls_->forgotten_context_.result(result, target_.name, from_->name);
    try {
      answer(false, std::move(result));
    } catch (const OverloadedError& error) {
      refuse(error);  // the result is too large to be sent
    } catch (...) {
      fail(std::current_exception());  // the result cannot travel
    }
  }
  void fail(const std::exception_ptr& error) override {
    fail_as_before(encode_thrown(error, calls_->name(), target_.name));
  }
  void refuse(const Error& error) override { fail_as_before(encode_refusal(error, calls_->name(), target_.name)); }
  void fail_as_before(std::string error) override {
    if (keeper_ == nullptr) return answer(true, {.bytes = std::move(error)});
    // Whoever uses what was to be kept gets the error; the caller is told that there is something to be used.
    keeper_->fail(std::move(error));
    answer_kept();
  }
  std::shared_ptr<net::Runtime> runtime() override { return calls_->place_.runtime; }

  Id id() const { return {from_->incarnation, call_}; }
  net::Time arrived() const { return arrived_; }
  // When its function began, and whether it went on after that had returned: as a Task, or with a Future.
  void begins(net::Time now) { began_ = now; }
  net::Time began() const { return began_; }
  void goes_on() { goes_on_ = true; }
  bool went_on() const { return goes_on_; }
  const Target& target() const { return target_; }
  Received& received() { return received_; }
  // What is current in the function, and when it answers, wherever that is.
  void under(std::shared_ptr<void> context) { context_ = std::move(context); }
  // The cancellation lives as long as this.
  std::shared_ptr<Cancellation> cancellation() { return {shared_from_this(), &cancellation_}; }

 private:
  // Hardly anyone waits for this: it goes with what is written next, or with the acknowledgement of the request, and
  // does not wake a caller that waits for the answer to its next call.
  void answer_kept() { answer(false, {}, net::Writing::later); }
  void answer(bool failed, wire::Payload result, net::Writing writing = net::Writing::soon) {
    if (answered_.exchange(true)) return;
    std::optional<SurroundingsGuard> guard;
    if (Surroundings::here().context != context_) guard.emplace(Surroundings{.context = context_});
    wire::ByteWriter head;
    head.put(call_);
    head.put(failed);
    try {
      calls_->place_.exchange->send(*from_, {.type = reply_type, .head = head.take(), .payload = std::move(result)},
                                    net::Admission::always, writing);
    } catch (const PeerGoneError& gone) {
      VLOG(1) << "gradwire: " << calls_->name() << " has no one to reply to: " << gone.what();
    } catch (...) {
      answered_ = false;
      throw;
    }
    calls_->has_answered(*this);
  }

  const std::shared_ptr<Calls> calls_;
  const Exchange::From from_;
  const uint64_t call_;
  const Target target_;
  Received received_;
  Keeper* const keeper_;  // in the luggage; null: the result goes back
  std::shared_ptr<void> context_;
  const net::Time arrived_;
  net::Time began_;  // before it can be answered
  std::atomic<bool> goes_on_ = false;
  Cancellation cancellation_;
  std::atomic<bool> answered_ = false;
};

void Calls::request_arrived(const Exchange::From& from, Received received) {
  wire::ByteReader head(received.message.head);
  const auto call = head.take<uint64_t>();
  Target target{.kind = Target::Kind{head.take<uint8_t>()},
                .name = std::string(head.take_string()),
                .detail = std::string(head.take_string())};
  head.expect_end("a request's head");
  const std::shared_ptr<net::Arrival> arrival = received.message.arrival;
  auto served = std::make_shared<Served>(shared_from_this(), from, call, std::move(target), std::move(received));
  {
    MutexLock lock(mutex_);
    served_.emplace(served->id(), served);
    ++counts_[from->incarnation].received;
  }
  const auto run_it = [this, served] { place_.runtime->submit([served, this] { run(served); }); };
  if (!arrival || arrival->settled())
    run_it();
  else
    arrival->when_settled(run_it);
}

Calls::Occupied::Occupied(Calls& calls) : calls_(calls) {
  if (calls_.threads_in_functions_.fetch_add(1) < calls_.place_.max_threads) return;
  --calls_.threads_in_functions_;
  throw OverloadedError(fmt::format(
      "all {} threads of {} are in functions, most of them waiting; nest calls less deeply, return a Future "
      "or a Task instead of waiting, or raise WorkerOptions::max_threads",
      calls_.place_.max_threads, calls_.name()));
}

void Calls::run(const std::shared_ptr<Served>& served) {
  const std::shared_ptr<WorkerCore> core = place_.core.lock();
  if (!core) return;
  const net::Time now = place_.runtime->now();
  served->begins(now);
  queued_.add(now - served->arrived());
  if (Trace* kept = trace()) kept->stretch("queue", served->target().name, served->arrived(), now, served->id());
  Received& received = served->received();
  if (!received.message.arrival) return served->refuse(OverloadedError(received.message.refusal));
  Surroundings surroundings{.worker = core, .cancellation = served->cancellation(), .context = nullptr};
  try {
    const Occupied occupied(*this);
    received.luggage.enter(surroundings);
    served->under(surroundings.context);
    wire::Payload arguments = received.message.arrival->take();
    received.luggage.unload(arguments);
    const c10::AutoGradMode grad_mode(!surroundings.no_grad);
    const SurroundingsGuard guard(std::move(surroundings));
    const Trace::Span span(trace(), "run", served->target().name, Trace::Flow::ends, served->id());
    registry_.run(served->target(), std::move(arguments), served);
    served->goes_on();
  } catch (const Error& error) {
    served->refuse(error);
  } catch (const std::exception& error) {
    served->refuse(InvalidArgumentError(error.what()));
  } catch (...) {
    // A user's Codec may throw anything, and it runs before the function's own errors are caught.
    served->refuse(InvalidArgumentError(fmt::format(
        "the arguments of \"{}\" cannot be used by {}: decoding them threw something that is not a std::exception",
        served->target().name, place_.name)));
  }
}

std::optional<std::string> Calls::function_here() {
  const std::shared_ptr<Cancellation> function = Cancellation::of_function(Surroundings::here().cancellation);
  if (!function) return {};
  MutexLock lock(mutex_);
  for (const auto& [id, served] : served_)
    // The same owner: the cancellation is a part of what was served, and keeps it while its name is read here.
    if (!served.owner_before(function) && !function.owner_before(served)) return served.lock()->target().name;
  return {};
}

void Calls::has_answered(const Served& served) {
  const net::Time now = place_.runtime->now();
  if (served.began() != net::Time()) functions_.add(now - served.began());
  if (Trace* kept = trace(); kept != nullptr && served.went_on())
    kept->stretch("task", served.target().name, served.began(), now, served.id());
  MutexLock lock(mutex_);
  served_.erase(served.id());
  look_whether_idle();
}

void Calls::cancel_arrived(const net::Record& from, const Received& received) {
  const auto call = wire::ByteReader(received.message.head).take<uint64_t>();
  std::shared_ptr<Served> served;
  {
    MutexLock lock(mutex_);
    if (auto found = served_.find({from.incarnation, call}); found != served_.end()) served = found->second.lock();
  }
  // Callbacks of the user's stop tokens run in this: not here, under the session's lock.
  if (served) place_.runtime->submit([cancellation = served->cancellation()] { cancellation->request(); });
}

void Calls::cancel_served_for(Incarnation caller) {
  std::vector<std::shared_ptr<Served>> orphans;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, weak] : served_)
      if (id.maker == caller)
        if (std::shared_ptr<Served> served = weak.lock()) orphans.push_back(std::move(served));
  }
  for (const std::shared_ptr<Served>& served : orphans)
    place_.runtime->submit([cancellation = served->cancellation()] { cancellation->request(); });
}

}  // namespace gradwire
