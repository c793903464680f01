// What is common to owners and holders: sections of messages, handles, deaths.
#include "gradwire/rref/references.h"

#include <algorithm>

#include <c10/util/Logging.h>
#include <fmt/format.h>

#include "gradwire/rpc/call_messages.h"
#include "gradwire/rpc/error_on_wire.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/wire/id.h"

namespace gradwire {
namespace {

constexpr uint8_t passenger_number = 1;
// References that are dropped one after the other are released together: one turn of the loop, one message.
constexpr auto tidying_delay = std::chrono::milliseconds(1);
constexpr size_t most_reported = 20;
// In a message: some 50 bytes each, in the half of a frame that is for what boards.
constexpr size_t most_references = 100'000;
constexpr size_t most_release_bytes = size_t{64} * 1024;

std::string lost_error(const std::string& owner) {
  return encode_refusal(
      ReferenceLostError("it does not have what this reference refers to: whoever was to make it, or to tell the owner "
                         "of this holder, was gone before it could"),
      owner, "RRef");
}

}  // namespace

std::shared_ptr<Referent::Turn> turn_for(const Reference& reference) {
  if (const auto* here = static_cast<const ReferenceSurroundings*>(Surroundings::here().references.get()))
    if (auto turn = here->turn.lock(); turn && !here->inside.empty() && here->inside.back() == reference.id())
      return turn;
  return std::make_shared<Referent::Turn>(reference.referent());
}

std::shared_ptr<References> References::make(Place place) {
  std::shared_ptr<References> references(new References(std::move(place)));
  const auto handle = [&](net::MessageType type, auto act) {
    references->place_.exchange->on_message(
        type, [weak = std::weak_ptr(references), act](const RecordPointer& from, const Received& received) {
          if (std::shared_ptr<References> self = weak.lock()) act(*self, from, received.message.head);
        });
  };
  handle(adopt_type,
         [](References& self, const RecordPointer& from, std::string_view head) { self.adopt_arrived(from, head); });
  handle(adopt_answer_type,
         [](References& self, const RecordPointer&, std::string_view head) { self.adopt_answered(head); });
  handle(adopted_type,
         [](References& self, const RecordPointer& from, std::string_view head) { self.adopted_arrived(from, head); });
  handle(release_type,
         [](References& self, const RecordPointer& from, std::string_view head) { self.release_arrived(from, head); });
  return references;
}

std::shared_ptr<References> References::of(const WorkerCore& core) {
  return std::static_pointer_cast<References>(core.exchange().passenger(passenger_number));
}

uint8_t References::number() const { return passenger_number; }

// RQ: holds a handle of every reference in the message until the message has its number.
class References::Boarding : public Ticket {
 public:
  Boarding(std::shared_ptr<References> references, RecordPointer to, std::vector<std::shared_ptr<wire::Rider>> riders,
           std::vector<Id> inside)
      : references_(std::move(references)),
        to_(std::move(to)),
        riders_(std::move(riders)),
        inside_(std::move(inside)) {}
  void board(wire::ByteWriter& bytes) override {
    ReferenceSection section;
    section.inside = std::move(inside_);
    for (const std::shared_ptr<wire::Rider>& rider : riders_)
      section.references.push_back(references_->pass(static_cast<const ReferenceRider&>(*rider), to_));
    encode(bytes, section, references_->self().incarnation, to_->incarnation);
  }

 private:
  const std::shared_ptr<References> references_;
  const RecordPointer to_;
  const std::vector<std::shared_ptr<wire::Rider>> riders_;
  std::vector<Id> inside_;
};

std::unique_ptr<Passenger::Ticket> References::prepare(const net::Message& message, const RecordPointer& to) {
  const auto* surroundings = static_cast<const ReferenceSurroundings*>(Surroundings::here().references.get());
  const bool inside = surroundings != nullptr && message.type == request_type;
  if (message.payload.riders.empty() && !inside) return nullptr;
  if (message.payload.riders.size() > most_references)
    throw InvalidArgumentError(fmt::format("a message with {} references; {} is the most. Send fewer at once",
                                           message.payload.riders.size(), most_references));
  for (const std::shared_ptr<wire::Rider>& rider : message.payload.riders)
    if (static_cast<const ReferenceRider&>(*rider).reference->table().get() != this)
      throw InvalidArgumentError(
          fmt::format("{} cannot be sent by {}: it is another worker's, in this process; each worker has references "
                      "of its own",
                      to_string(*static_cast<const ReferenceRider&>(*rider).reference), self().name));
  return std::make_unique<Boarding>(shared_from_this(), to, message.payload.riders,
                                    inside ? surroundings->inside : std::vector<Id>{});
}

namespace {

// What came with one message.
class ReferenceBag : public Passenger::Bag, public Keeper {
 public:
  ~ReferenceBag() override {
    // A creation that no one has answered: R3.
    if (made_) made_->fail(lost_error(owner_));
  }
  void unload(wire::Payload& payload) override {
    for (std::shared_ptr<Reference>& reference : references)
      payload.riders.push_back(std::make_shared<ReferenceRider>(std::move(reference)));
    references.clear();
  }
  void enter(Surroundings& surroundings) override {
    if (inside.empty() && !turn) return;
    if (turn && std::ranges::find(inside, target) != inside.end())
      throw InvalidArgumentError(
          "calls on this object run one at a time, and this call comes from inside another: it would wait for itself. "
          "Call the method directly, or do not register the type as serialised()");
    auto here = std::make_shared<ReferenceSurroundings>();
    here->inside = std::move(inside);
    if (turn) here->inside.push_back(target);
    here->turn = turn;
    surroundings.references = std::move(here);
  }
  Keeper* keeper() override { return made_ ? this : nullptr; }
  void keep(Kept kept) override { made_->keep(std::move(kept)); }
  void fail(std::string error) override { made_->fail(std::move(error)); }

  void makes(std::shared_ptr<Referent> referent, std::string owner) {
    made_ = std::move(referent);
    owner_ = std::move(owner);
  }
  std::vector<std::shared_ptr<Reference>> references;
  std::vector<Id> inside;
  std::shared_ptr<Referent::Turn> turn;
  Id target;

 private:
  std::shared_ptr<Referent> made_;
  std::string owner_;
};

}  // namespace

// RG: by the thread that reads the link, before anything later of the session. The bag's handles are kept or dropped by
// whoever gets the message, or drops it.
std::unique_ptr<Passenger::Bag> References::arrived(const RecordPointer& from, net::MessageType, std::string_view bytes,
                                                    const std::vector<wire::TensorDescription>&) {
  ReferenceSection section = decode_section(bytes, from, place_.exchange->self());
  auto bag = std::make_unique<ReferenceBag>();
  bag->inside = std::move(section.inside);
  Errands errands;
  {
    MutexLock lock(mutex_);
    for (const PassedReference& passed : section.references) {
      if (passed.passing == Passing::creation) {
        bag->makes(created(passed), self().name);
      } else if (passed.owner->incarnation != self().incarnation) {
        bag->references.push_back(given(passed, from, errands));
      } else {
        Owned* owned = passed.passing == Passing::lost ? nullptr : mentioned(passed, errands);
        bag->references.push_back(owned != nullptr ? owners_handle(passed.id, *owned) : lost_handle(passed.id));
        if (passed.passing == Passing::operation) {
          bag->turn = std::make_shared<Referent::Turn>(bag->references.back()->referent());
          bag->target = passed.id;
        }
      }
    }
  }
  carry_out(std::move(errands));
  return bag;
}

std::shared_ptr<Reference> References::lost_handle(Id id) {
  auto referent = std::make_shared<Referent>();
  referent->fail(lost_error(self().name));
  return std::make_shared<Reference>(shared_from_this(), id, place_.exchange->self(), std::move(referent), nullptr);
}

// Under whatever lock its last copy died: only looks, and lets the loop do the rest.
void References::dropped(const Reference& reference) {
  MutexLock lock(mutex_);
  size_t* handles = nullptr;
  if (auto owned = owned_.find(reference.id()); owned != owned_.end() && owned->second.referent == reference.referent())
    handles = &owned->second.handles;
  else if (auto held = held_.find(reference.id()); held != held_.end() && !reference.is_owner())
    handles = &held->second.handles;
  if (handles == nullptr || --*handles > 0) return;
  unused_.push_back(reference.id());
  tidy_soon();
}

void References::tidy_soon() {
  if (tidying_ || closed_) return;
  tidying_ = true;
  const auto tidy = [weak = weak_from_this()] {
    if (std::shared_ptr<References> self = weak.lock()) self->tidy();
  };
  // While the group leaves, an owner would take what is not released in time for forgotten.
  if (leaves_)
    place_.loop->post(tidy);
  else
    place_.loop->after(tidying_delay, tidy);
}

// Releases go together: one message for each owner, or more if there are very many.
void References::tidy() {
  MutexLock tidying(tidying_mutex_);
  Errands errands;
  {
    MutexLock lock(mutex_);
    tidying_ = false;
    std::map<Incarnation, std::pair<RecordPointer, wire::ByteWriter>> releases;
    const auto send = [&errands](const RecordPointer& owner, wire::ByteWriter& bytes) {
      errands.messages.emplace_back(owner, net::Message{.type = release_type, .head = bytes.take(), .payload = {}});
    };
    for (const Id& id : std::exchange(unused_, {})) {
      if (owned_.contains(id)) {
        sweep(id, errands);
        continue;
      }
      auto found = held_.find(id);
      if (found == held_.end()) continue;
      const Held& held = found->second;
      if (held.handles > 0 || !held.pins.empty()) continue;  // pinned: whom we gave it to is not known to the owner yet
      for (const auto& [fork, confirmed] : held.forks) {
        auto& [owner, bytes] = releases[held.owner->incarnation];
        owner = held.owner;
        wire::put_id(bytes, id);
        wire::put_id(bytes, fork);
        if (bytes.size() >= most_release_bytes) send(owner, bytes);
      }
      if (found->second.made_by) errands.creations.push_back(std::move(found->second.made_by));
      held_.erase(found);
    }
    for (auto& [incarnation, release] : releases)
      if (release.second.size() > 0) send(release.first, release.second);
  }
  carry_out(std::move(errands));
}

void References::peer_gone(const net::Record& peer, GoneReason reason) {
  Errands errands;
  {
    MutexLock lock(mutex_);
    dead_.emplace(peer.incarnation, reason);
    holder_gone(peer, errands);
    owner_or_child_gone(peer, errands);
  }
  carry_out(std::move(errands));
}

void References::carry_out(Errands errands) {
  for (const RecordPointer& peer : errands.to_meet) {
    try {
      place_.exchange->meet(*peer);
    } catch (const Error& error) {
      VLOG(1) << "gradwire: " << self().name << " cannot meet " << peer->name << ": " << error.what();
    }
  }
  for (auto& [to, message] : errands.messages) place_.exchange->tell(*to, std::move(message));
  const auto later = [&](net::Loop::Task task) {
    place_.runtime ? place_.runtime->submit(std::move(task)) : place_.loop->post(std::move(task));
  };
  for (std::shared_ptr<Referent>& referent : errands.lost)
    later([referent = std::move(referent), error = lost_error(self().name)] { referent->fail(error); });
  // Users' destructors run where functions do.
  if (!errands.deleted.empty()) later([deleted = std::move(errands.deleted)]() mutable { deleted.clear(); });
}

bool References::confirmed(const Reference& reference) {
  if (reference.is_owner()) return true;
  MutexLock lock(mutex_);
  auto held = held_.find(reference.id());
  return held != held_.end() && has_confirmed_fork(held->second);
}

std::exception_ptr References::owner_gone(const Reference& reference) {
  MutexLock lock(mutex_);
  auto found = dead_.find(reference.owner()->incarnation);
  if (found == dead_.end() || reference.is_owner()) return nullptr;
  return std::make_exception_ptr(
      OwnerGoneError(fmt::format("the owner of {} is gone ({}), and what it refers to with it", to_string(reference),
                                 name_of(found->second)),
                     reference.owner()->name, found->second));
}

ReferenceReport References::report() {
  ReferenceReport report;
  const auto now = std::chrono::steady_clock::now();
  MutexLock lock(mutex_);
  for (const auto& [id, owned] : owned_) {
    OwnedReference entry{.id = to_string(id), .creator = owned.creator->name, .age = now - owned.since};
    entry.handles = owned.handles;
    if (!owned.referent->ready())
      entry.type = "not there yet";
    else
      entry.type = owned.referent->kept() != nullptr ? owned.referent->kept()->type->name : "failed";
    for (const auto& [fork, holder] : owned.forks) entry.holders.push_back(holder->name);
    std::ranges::sort(entry.holders);
    report.owned.push_back(std::move(entry));
  }
  for (const auto& [id, held] : held_)
    report.held.push_back({.id = to_string(id),
                           .owner = held.owner->name,
                           .creator = held.creator->name,
                           .age = now - held.since,
                           .handles = held.handles,
                           .forks = held.forks.size(),
                           .pins = held.pins.size(),
                           .confirmed = has_confirmed_fork(held)});
  report.adoptions = adopting_.size();
  std::ranges::sort(report.owned, {}, &OwnedReference::id);
  std::ranges::sort(report.held, {}, &HeldReference::id);
  return report;
}

void References::begins_to_leave() {
  {
    MutexLock lock(mutex_);
    leaves_ = true;
  }
  tidy();
}

void References::leaving() {
  ReferenceReport remaining = report();
  std::erase_if(remaining.owned, [](const OwnedReference& owned) { return owned.holders.empty(); });
  remaining.held.clear();
  if (remaining.owned.empty()) return;
  std::string more;
  if (remaining.owned.size() > most_reported) {
    more = fmt::format("and {} more\n", remaining.owned.size() - most_reported);
    remaining.owned.resize(most_reported);
  }
  LOG(WARNING) << "gradwire: " << self().name << " leaves, and drops what others still hold of it:\n"
               << remaining << more;
}

void References::closed() {
  // Destroyed when the lock is given up.
  std::unordered_map<Id, Owned> owned;
  std::unordered_map<Id, Held> held;
  MutexLock lock(mutex_);
  closed_ = true;
  owned.swap(owned_);
  held.swap(held_);
  adopting_.clear();
}

}  // namespace gradwire
