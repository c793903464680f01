// The references of one worker: those it owns and those it holds. docs/references.md tells the protocol; the names of
// its rules stand where the code obeys them, and models/rref.pml checks them.
//
//   R1  the value lives while any worker that lives holds or pins a fork of it
//   R2  once no one holds it, it is deleted; nothing else stays either
//   R3  no operation on a reference hangs: it has a value, an error, or a living owner at work on it
//   R4  a holder whose death was announced holds nothing
//
// A fork is one holder's share, entered at the owner. Locks: mutex_ is taken under a session's, and nothing is sent,
// run or destroyed under it but what is said here.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "gradwire/base/mutex.h"
#include "gradwire/rpc/exchange.h"
#include "gradwire/rref/reference.h"
#include "gradwire/rref/reference_report.h"
#include "gradwire/rref/reference_section.h"

namespace gradwire {

class WorkerCore;

// What is current in a function that was called on an object whose calls run one at a time, and in what it calls.
struct ReferenceSurroundings {
  std::vector<Id> inside;  // those objects, all along the chain of calls
  // Of the function itself, if it is a method of one. What it leaves behind does not hold up the next.
  std::weak_ptr<Referent::Turn> turn;
};

// The turn of the call that runs here; a new one, behind all others, if its caller did not ask for one.
std::shared_ptr<Referent::Turn> turn_for(const Reference& reference);

// Any thread.
class References : public Passenger, public std::enable_shared_from_this<References> {
 public:
  // Where deferred work goes: what is brief to the loop, what may take long (destructors of users' objects) to
  // `submit`.
  struct Place {
    std::shared_ptr<net::Loop> loop;
    std::shared_ptr<net::Runtime> runtime;  // null in a simulation: then everything goes to the loop
    std::shared_ptr<Exchange> exchange;
    std::weak_ptr<WorkerCore> core;
  };
  // With its handlers in the exchange, which is not open yet.
  static std::shared_ptr<References> make(Place place);
  static std::shared_ptr<References> of(const WorkerCore& core);
  ~References() override = default;

  // A reference to what the owner will make, when the message with this as its creation arrives there.
  std::shared_ptr<Reference> create(std::shared_ptr<const net::Record> owner,
                                    std::shared_ptr<FutureStateOf<void>> creation) GRADWIRE_EXCLUDES(mutex_);
  // A reference to what is here already.
  std::shared_ptr<Reference> share(Kept kept) GRADWIRE_EXCLUDES(mutex_);

  ReferenceReport report() GRADWIRE_EXCLUDES(mutex_);
  const Place& place() const { return place_; }

  // Of a handle.
  void dropped(const Reference& reference) GRADWIRE_EXCLUDES(mutex_);
  bool confirmed(const Reference& reference) GRADWIRE_EXCLUDES(mutex_);
  // Null while the owner is there.
  std::exception_ptr owner_gone(const Reference& reference) GRADWIRE_EXCLUDES(mutex_);

  uint8_t number() const override;
  std::unique_ptr<Ticket> prepare(const net::Message& message, const std::shared_ptr<const net::Record>& to) override;
  std::unique_ptr<Bag> arrived(const std::shared_ptr<const net::Record>& from, net::MessageType type,
                               std::string_view section, const std::vector<wire::TensorDescription>& tensors) override
      GRADWIRE_EXCLUDES(mutex_);
  void peer_gone(const net::Record& peer, GoneReason reason) override GRADWIRE_EXCLUDES(mutex_);
  void begins_to_leave() override GRADWIRE_EXCLUDES(mutex_);
  void leaving() override GRADWIRE_EXCLUDES(mutex_);
  void closed() override GRADWIRE_EXCLUDES(mutex_);

 private:
  explicit References(Place place) : place_(std::move(place)) {}
  using RecordPointer = std::shared_ptr<const net::Record>;

  // What a worker owns: the table of the protocol. Made by its creation, or empty by whoever mentions it first (RW).
  struct Owned {
    std::shared_ptr<Referent> referent = std::make_shared<Referent>();
    RecordPointer creator;
    uint64_t creation = 0;  // its number; 0: made here
    bool created = false;
    std::unordered_map<Id, RecordPointer> forks;  // the set, with their holders: never a bare count
    size_t handles = 0;                           // here; operations under way have one
    std::chrono::steady_clock::time_point since;
  };
  // What a worker holds of another's.
  struct Held {
    RecordPointer owner;
    RecordPointer creator;
    uint64_t creation = 0;
    std::unordered_map<Id, bool> forks;            // whether the owner has confirmed it
    std::unordered_map<Id, RecordPointer> pins;    // forks made of ours that the owner may not know yet, with whom
    std::shared_ptr<FutureStateOf<void>> made_by;  // at its creator: the call; the first fork is confirmed by its end
    Id first_fork;
    bool lost = false;  // it came as lost
    size_t handles = 0;
    std::chrono::steady_clock::time_point since;
  };
  struct Adopting {
    Id reference;
    RecordPointer owner;
    RecordPointer giver;
  };
  // What is to be done once the lock is given up.
  struct Errands {
    std::vector<std::pair<RecordPointer, net::Message>> messages;
    std::vector<RecordPointer> to_meet;
    std::vector<std::shared_ptr<Referent>> lost;     // to be failed
    std::vector<std::shared_ptr<Referent>> deleted;  // to be destroyed
    // To be destroyed: an answer that no one has read may hold what the layers above brought.
    std::vector<std::shared_ptr<FutureStateOf<void>>> creations;
  };
  class Boarding;

  // Owner's side: references_owned.cpp.
  void adopt_arrived(const RecordPointer& from, std::string_view head) GRADWIRE_EXCLUDES(mutex_);
  void release_arrived(const RecordPointer& from, std::string_view head) GRADWIRE_EXCLUDES(mutex_);
  // An entry for what this worker makes for itself.
  Owned& own(Id id) GRADWIRE_REQUIRES(mutex_);
  // Throws MalformedError for a number that does not go up.
  std::shared_ptr<Referent> created(const PassedReference& passed) GRADWIRE_REQUIRES(mutex_);
  // The entry, made empty if it may still be created; null if the reference is lost.
  Owned* mentioned(const PassedReference& passed, Errands& errands) GRADWIRE_REQUIRES(mutex_);
  void sweep(Id id, Errands& errands) GRADWIRE_REQUIRES(mutex_);
  void holder_gone(const net::Record& peer, Errands& errands) GRADWIRE_REQUIRES(mutex_);
  std::shared_ptr<Reference> owners_handle(Id id, Owned& owned, std::shared_ptr<FutureStateOf<void>> creation = nullptr)
      GRADWIRE_REQUIRES(mutex_);
  std::shared_ptr<Reference> lost_handle(Id id);

  // Holder's side: references_held.cpp.
  void adopt_answered(std::string_view head) GRADWIRE_EXCLUDES(mutex_);
  void adopted_arrived(const RecordPointer& from, std::string_view head) GRADWIRE_EXCLUDES(mutex_);
  std::shared_ptr<Reference> given(const PassedReference& passed, const RecordPointer& giver, Errands& errands)
      GRADWIRE_REQUIRES(mutex_);
  // RG: in the step that queues the message.
  PassedReference pass(const ReferenceRider& rider, const RecordPointer& to) GRADWIRE_EXCLUDES(mutex_);
  bool has_confirmed_fork(const Held& held) const GRADWIRE_REQUIRES(mutex_);
  static void tell_adopted(const RecordPointer& giver, Id reference, Id fork, Errands& errands);
  void owner_or_child_gone(const net::Record& peer, Errands& errands) GRADWIRE_REQUIRES(mutex_);
  std::shared_ptr<Reference> holders_handle(Id id, Held& held) GRADWIRE_REQUIRES(mutex_);

  void tidy_soon() GRADWIRE_REQUIRES(mutex_);
  void tidy() GRADWIRE_EXCLUDES(tidying_mutex_, mutex_);
  void carry_out(Errands errands) GRADWIRE_EXCLUDES(mutex_);
  Id next_id() GRADWIRE_REQUIRES(mutex_) { return {self().incarnation, ++counter_}; }
  const net::Record& self() const { return place_.exchange->record(); }

  const Place place_;

  // Held through a whole tidying: when begins_to_leave returns, also what the loop was releasing has been sent. Before
  // a session's lock and mutex_.
  Mutex tidying_mutex_;
  Mutex mutex_;
  bool closed_ GRADWIRE_GUARDED_BY(mutex_) = false;
  uint64_t counter_ GRADWIRE_GUARDED_BY(mutex_) = 0;
  std::unordered_map<Id, Owned> owned_ GRADWIRE_GUARDED_BY(mutex_);
  std::unordered_map<Id, Held> held_ GRADWIRE_GUARDED_BY(mutex_);
  // Forks whose Adopt has not been answered; they outlive what is held (RN).
  std::unordered_map<Id, Adopting> adopting_ GRADWIRE_GUARDED_BY(mutex_);
  // RW: creations, by owner and by creator.
  std::unordered_map<Incarnation, uint64_t> creations_sent_ GRADWIRE_GUARDED_BY(mutex_);
  std::unordered_map<Incarnation, uint64_t> creations_seen_ GRADWIRE_GUARDED_BY(mutex_);
  std::unordered_map<Incarnation, GoneReason> dead_ GRADWIRE_GUARDED_BY(mutex_);
  // What the next tidying looks at.
  std::vector<Id> unused_ GRADWIRE_GUARDED_BY(mutex_);
  bool tidying_ GRADWIRE_GUARDED_BY(mutex_) = false;
  bool leaves_ GRADWIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace gradwire
