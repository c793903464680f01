// The contexts of one worker: those it made, and those it was called under. What rides on messages for them, who is a
// member, and when they end. docs/gradients.md tells the protocol; the names of its rules (AH, AO, AN, AS, AQ, AX)
// stand where the code obeys them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "gradwire/autograd/context_messages.h"
#include "gradwire/autograd/context_state.h"
#include "gradwire/autograd/frame.h"
#include "gradwire/base/mutex.h"
#include "gradwire/net/runtime.h"
#include "gradwire/rpc/exchange.h"

namespace gradwire {
class WorkerCore;
}

namespace gradwire::autograd {

class Passes;

// One context as a worker sees it: for finding leaks, and for tests.
struct ContextReport {
  Id id;
  std::string creator;
  ContextState::Counts counts;
};

// Any thread. Lock order: a session's, mutex_, a ContextState's.
class Contexts : public Passenger, public std::enable_shared_from_this<Contexts> {
 public:
  struct Place {
    std::shared_ptr<net::Runtime> runtime;
    std::shared_ptr<Exchange> exchange;
    std::weak_ptr<WorkerCore> core;
  };
  // With its handlers in the exchange, which is not open yet.
  static std::shared_ptr<Contexts> make(Place place);
  static std::shared_ptr<Contexts> of(const WorkerCore& core);
  ~Contexts() override;

  // A new one, held by the frame.
  std::shared_ptr<Frame> create() GRADWIRE_EXCLUDES(mutex_);
  // Null if this worker does not have it.
  std::shared_ptr<Frame> find(Id id) GRADWIRE_EXCLUDES(mutex_);
  std::vector<ContextReport> report() GRADWIRE_EXCLUDES(mutex_);

  // Of a frame that is over.
  void let_go(const std::shared_ptr<ContextState>& context, const RecordPointer& caller, uint64_t call);
  // A3: if nothing holds it. What it kept is destroyed here: where users' code may run.
  void release(const std::shared_ptr<ContextState>& context) GRADWIRE_EXCLUDES(mutex_);

  uint8_t number() const override { return 2; }
  std::unique_ptr<Ticket> prepare(const net::Message& message, const RecordPointer& to) override;
  std::unique_ptr<Bag> arrived(const RecordPointer& from, net::MessageType type, std::string_view section,
                               const std::vector<wire::TensorDescription>& tensors) override GRADWIRE_EXCLUDES(mutex_);
  void peer_gone(const net::Record& peer, GoneReason reason) override GRADWIRE_EXCLUDES(mutex_);
  void closed() override GRADWIRE_EXCLUDES(mutex_);

  const Place& place() const { return place_; }
  Passes& passes() { return *passes_; }
  RecordPointer self() const { return place_.exchange->self(); }
  Id next_id() { return {place_.exchange->record().incarnation, ++counter_}; }
  // Not known to be dead: null. Else why it is gone.
  std::exception_ptr why_gone(const net::Record& peer) GRADWIRE_EXCLUDES(mutex_);
  std::vector<std::shared_ptr<ContextState>> all() GRADWIRE_EXCLUDES(mutex_);

 private:
  explicit Contexts(Place place);
  class Boarding;
  class ContextBag;

  std::shared_ptr<Frame> called_under(const ContextSection& section, const RecordPointer& caller)
      GRADWIRE_EXCLUDES(mutex_);
  void tell_member(const std::shared_ptr<ContextState>& context);
  void end(const std::shared_ptr<ContextState>& context);
  void tell_end(const net::Record& member, Id context);
  void release_soon(const std::shared_ptr<ContextState>& context);
  void member_arrived(const RecordPointer& from, std::string_view head);
  void end_arrived(const RecordPointer& from, std::string_view head);
  void over_arrived(const RecordPointer& from, std::string_view head);

  const Place place_;
  std::unique_ptr<Passes> passes_;
  std::atomic<uint64_t> counter_ = 0;

  Mutex mutex_;
  std::unordered_map<Id, std::shared_ptr<ContextState>> contexts_ GRADWIRE_GUARDED_BY(mutex_);
  // AO: calls that were answered, and go on; by callee and call.
  std::unordered_map<Id, std::shared_ptr<void>> not_over_ GRADWIRE_GUARDED_BY(mutex_);
  std::unordered_map<Incarnation, GoneReason> dead_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire::autograd
