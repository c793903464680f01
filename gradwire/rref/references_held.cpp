// As a holder: forks of what lives elsewhere, given and taken. For the owner's side see references_owned.cpp.
#include <algorithm>

#include <fmt/format.h>

#include "gradwire/rref/references.h"
#include "gradwire/wire/id.h"

namespace gradwire {

std::shared_ptr<Reference> References::create(std::shared_ptr<const net::Record> owner,
                                              std::shared_ptr<FutureStateOf<void>> creation) {
  MutexLock lock(mutex_);
  const Id id = next_id();
  if (owner->incarnation == self().incarnation) return owners_handle(id, own(id), std::move(creation));
  Held& held = held_[id];
  held.owner = std::move(owner);
  held.creator = place_.exchange->self();
  held.first_fork = next_id();
  held.forks.emplace(held.first_fork, false);
  held.made_by = std::move(creation);
  held.since = std::chrono::steady_clock::now();
  return holders_handle(id, held);
}

std::shared_ptr<Reference> References::holders_handle(Id id, Held& held) {
  ++held.handles;
  return std::make_shared<Reference>(shared_from_this(), id, held.owner, nullptr, held.made_by);
}

bool References::has_confirmed_fork(const Held& held) const {
  return std::ranges::any_of(held.forks, [&](const auto& fork) {
    return fork.second ||
           (fork.first == held.first_fork && held.made_by && held.made_by->done() && !held.made_by->failed());
  });
}

PassedReference References::pass(const ReferenceRider& rider, const RecordPointer& to) {
  using Use = ReferenceRider::Use;
  const Id id = rider.reference->id();
  const RecordPointer& owner = rider.reference->owner();
  MutexLock lock(mutex_);
  PassedReference passed{.id = id, .owner = owner};
  if (owner->incarnation == self().incarnation) {
    auto found = owned_.find(id);
    if (found == owned_.end()) {
      // It was lost, with its creator; the receiver is told so.
      passed.creator = owner;
      passed.passing = Passing::lost;
      return passed;
    }
    Owned& owned = found->second;
    passed.creation = owned.creation;
    passed.creator = owned.creator;
    if (rider.use == Use::creation) {
      passed.passing = Passing::creation;
    } else if (to->incarnation == self().incarnation) {
      passed.passing = rider.use == Use::operation ? Passing::operation : Passing::to_owner;
    } else {
      // Entered before the message leaves.
      passed.passing = Passing::from_owner;
      passed.fork = next_id();
      owned.forks.emplace(passed.fork, to);
    }
    return passed;
  }
  auto found = held_.find(id);  // the rider has a handle: it is there, unless this worker has left
  if (found == held_.end()) {
    passed.creator = owner;
    passed.passing = Passing::lost;
    return passed;
  }
  Held& held = found->second;
  passed.creator = held.creator;
  if (rider.use == Use::creation) {
    held.creation = passed.creation = ++creations_sent_[owner->incarnation];  // RW
    passed.passing = Passing::creation;
    passed.fork = held.first_fork;
    return passed;
  }
  passed.creation = held.creation;
  const bool to_owner = to->incarnation == owner->incarnation;
  const bool never_left = held.made_by && held.creation == 0;  // the request that should have made it
  if (held.lost || (!to_owner && (dead_.contains(owner->incarnation) || never_left))) {
    passed.passing = Passing::lost;
  } else if (to_owner) {
    passed.passing = rider.use == Use::operation ? Passing::operation : Passing::to_owner;
  } else {
    passed.passing = Passing::child;
    passed.fork = next_id();
    held.pins.emplace(passed.fork, to);
  }
  return passed;
}

std::shared_ptr<Reference> References::given(const PassedReference& passed, const RecordPointer& giver,
                                             Errands& errands) {
  auto [entry, fresh] = held_.try_emplace(passed.id);
  Held& held = entry->second;
  if (fresh) held.since = std::chrono::steady_clock::now();
  // What one giver passed on as lost another may have.
  if (fresh || (held.lost && passed.passing != Passing::lost)) {
    held.owner = passed.owner;
    held.creator = passed.creator;
    held.creation = passed.creation;
    held.lost = passed.passing == Passing::lost;
  }
  const bool owner_dead = dead_.contains(held.owner->incarnation);
  if (passed.passing == Passing::from_owner) {
    held.forks.emplace(passed.fork, true);
  } else if (passed.passing == Passing::child) {
    if (giver->incarnation == self().incarnation) {
      held.pins.erase(passed.fork);  // to oneself: nothing to adopt
    } else if (owner_dead || has_confirmed_fork(held)) {
      tell_adopted(giver, passed.id, passed.fork, errands);  // RN
    } else {
      held.forks.emplace(passed.fork, false);
      adopting_.emplace(passed.fork, Adopting{.reference = passed.id, .owner = held.owner, .giver = giver});
      PassedReference adoption = passed;
      adoption.passing = Passing::adoption;
      wire::ByteWriter head;
      encode(head, ReferenceSection{.references = {std::move(adoption)}, .inside = {}}, self().incarnation,
             held.owner->incarnation);
      errands.messages.emplace_back(held.owner, net::Message{.type = adopt_type, .head = head.take(), .payload = {}});
    }
  }
  return holders_handle(passed.id, held);
}

void References::tell_adopted(const RecordPointer& giver, Id reference, Id fork, Errands& errands) {
  wire::ByteWriter head;
  wire::put_id(head, reference);
  wire::put_id(head, fork);
  errands.messages.emplace_back(giver, net::Message{.type = adopted_type, .head = head.take(), .payload = {}});
}

void References::adopt_answered(std::string_view head) {
  wire::ByteReader reader(head);
  const Id fork = wire::take_id(reader);
  const bool entered = reader.take<bool>();
  Errands errands;
  {
    MutexLock lock(mutex_);
    auto found = adopting_.find(fork);
    if (found == adopting_.end()) return;
    const Adopting adopting = std::move(found->second);
    adopting_.erase(found);
    if (auto held = held_.find(adopting.reference); held != held_.end()) {
      auto& forks = held->second.forks;
      if (auto place = forks.find(fork); place != forks.end()) {
        if (entered)
          place->second = true;
        else
          forks.erase(place);
      }
    }
    tell_adopted(adopting.giver, adopting.reference, fork, errands);  // RN: entered or lost
  }
  carry_out(std::move(errands));
}

void References::adopted_arrived(const RecordPointer& from, std::string_view head) {
  wire::ByteReader reader(head);
  const Id reference = wire::take_id(reader);
  const Id fork = wire::take_id(reader);
  MutexLock lock(mutex_);
  auto held = held_.find(reference);
  if (held == held_.end()) return;
  auto pin = held->second.pins.find(fork);
  if (pin == held->second.pins.end() || pin->second->incarnation != from->incarnation) return;
  held->second.pins.erase(pin);
  unused_.push_back(held->first);
  tidy_soon();
}

void References::owner_or_child_gone(const net::Record& peer, Errands& errands) {
  for (auto& [id, held] : held_) {
    if (held.owner->incarnation == peer.incarnation) {
      held.forks.clear();
      held.pins.clear();
    } else {
      std::erase_if(held.pins, [&](const auto& pin) { return pin.second->incarnation == peer.incarnation; });
    }
    unused_.push_back(id);
  }
  // RN: whoever gave what this owner will not enter any more need not keep it.
  std::erase_if(adopting_, [&](const auto& entry) {
    if (entry.second.owner->incarnation != peer.incarnation) return false;
    tell_adopted(entry.second.giver, entry.second.reference, entry.first, errands);
    return true;
  });
  creations_sent_.erase(peer.incarnation);
  tidy_soon();
}

}  // namespace gradwire
