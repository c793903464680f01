// As an owner: who holds what lives here, and when it is deleted. For what is held of others see references_held.cpp.
#include <fmt/format.h>

#include "gradwire/rref/references.h"
#include "gradwire/wire/id.h"

namespace gradwire {

std::shared_ptr<Reference> References::share(Kept kept) {
  auto referent = std::make_shared<Referent>();
  referent->keep(std::move(kept));
  MutexLock lock(mutex_);
  if (closed_)
    throw InvalidArgumentError(fmt::format("{} has left the group and cannot share anything: join again", self().name));
  const Id id = next_id();
  Owned& owned = own(id);
  owned.referent = std::move(referent);
  return owners_handle(id, owned);
}

References::Owned& References::own(Id id) {
  Owned& owned = owned_[id];
  owned.creator = place_.exchange->self();
  owned.created = true;
  owned.since = std::chrono::steady_clock::now();
  return owned;
}

std::shared_ptr<Reference> References::owners_handle(Id id, Owned& owned,
                                                     std::shared_ptr<FutureStateOf<void>> creation) {
  ++owned.handles;
  return std::make_shared<Reference>(shared_from_this(), id, place_.exchange->self(), owned.referent,
                                     std::move(creation));
}

std::shared_ptr<Referent> References::created(const PassedReference& passed) {
  const Incarnation creator = passed.creator->incarnation;
  if (creator == self().incarnation) {
    // Made by `create`; gone if its last handle is.
    auto found = owned_.find(passed.id);
    return found == owned_.end() ? std::make_shared<Referent>() : found->second.referent;
  }
  uint64_t& seen = creations_seen_[creator];
  if (passed.creation <= seen) throw wire::MalformedError("references: creations whose numbers do not go up");
  seen = passed.creation;
  auto [entry, fresh] = owned_.try_emplace(passed.id);
  Owned& owned = entry->second;
  if (fresh) owned.since = std::chrono::steady_clock::now();
  owned.creator = passed.creator;
  owned.creation = passed.creation;
  owned.created = true;
  owned.forks.emplace(passed.fork, passed.creator);
  return owned.referent;
}

// RW, RC. A mention of what was made and deleted, or of what will never be made, makes no entry.
References::Owned* References::mentioned(const PassedReference& passed, Errands& errands) {
  if (auto found = owned_.find(passed.id); found != owned_.end()) return &found->second;
  const Incarnation creator = passed.creator->incarnation;
  if (creator == self().incarnation || dead_.contains(creator) || passed.creation == 0) return nullptr;
  if (auto seen = creations_seen_.find(creator); seen != creations_seen_.end() && passed.creation <= seen->second)
    return nullptr;
  Owned& owned = owned_[passed.id];
  owned.creator = passed.creator;
  owned.creation = passed.creation;
  owned.since = std::chrono::steady_clock::now();
  // So that its death is heard of.
  errands.to_meet.push_back(passed.creator);
  return &owned;
}

void References::adopt_arrived(const RecordPointer& from, std::string_view head) {
  const ReferenceSection section = decode_section(head, from, place_.exchange->self());
  Errands errands;
  {
    MutexLock lock(mutex_);
    for (const PassedReference& passed : section.references) {
      if (passed.passing != Passing::adoption) throw wire::MalformedError("references: an Adopt that adopts nothing");
      Owned* owned = mentioned(passed, errands);
      if (owned != nullptr) owned->forks.emplace(passed.fork, from);
      wire::ByteWriter answer;
      wire::put_id(answer, passed.fork);
      answer.put(owned != nullptr);
      errands.messages.emplace_back(from,
                                    net::Message{.type = adopt_answer_type, .head = answer.take(), .payload = {}});
    }
  }
  carry_out(std::move(errands));
}

void References::release_arrived(const RecordPointer& from, std::string_view head) {
  wire::ByteReader reader(head);
  Errands errands;
  {
    MutexLock lock(mutex_);
    while (reader.remaining() > 0) {
      const Id id = wire::take_id(reader);
      const Id fork = wire::take_id(reader);
      auto found = owned_.find(id);
      if (found == owned_.end()) continue;
      auto holder = found->second.forks.find(fork);
      if (holder == found->second.forks.end() || holder->second->incarnation != from->incarnation) continue;
      found->second.forks.erase(holder);
      sweep(id, errands);
    }
  }
  carry_out(std::move(errands));
}

// R2. Of an empty entry nothing stays either: if its creation comes later, it makes a new one.
void References::sweep(Id id, Errands& errands) {
  auto found = owned_.find(id);
  if (found == owned_.end() || !found->second.forks.empty() || found->second.handles > 0) return;
  errands.deleted.push_back(std::move(found->second.referent));
  owned_.erase(found);
}

void References::holder_gone(const net::Record& peer, Errands& errands) {
  std::vector<Id> touched;
  for (auto& [id, owned] : owned_) {
    // RC: what it has not made, it never will.
    const bool never = !owned.created && owned.creator->incarnation == peer.incarnation;
    if (never) {
      errands.lost.push_back(owned.referent);
      owned.forks.clear();
      owned.handles = 0;
    }
    const size_t dropped =
        std::erase_if(owned.forks, [&](const auto& fork) { return fork.second->incarnation == peer.incarnation; });
    if (never || dropped > 0) touched.push_back(id);
  }
  for (const Id& id : touched) sweep(id, errands);
  creations_seen_.erase(peer.incarnation);
}

}  // namespace gradwire
