// What a message depends on: ContextState's walks and closures.
#include "gradwire/autograd/context_state.h"
#include "gradwire/autograd/walk.h"

namespace gradwire::autograd {
namespace {

// Past these the receiver has to ask.
constexpr size_t most_nodes_walked = 200'000;
constexpr size_t most_ancestors = 4'096;

// The one node that the tensors come from; null if there are several.
const torch::autograd::Node* only_start(const SendNode& send) {
  const torch::autograd::Node* start = nullptr;
  for (const torch::autograd::Edge& edge : send.next_edges()) {
    if (start != nullptr && edge.function.get() != start) return nullptr;
    start = edge.function.get();
  }
  return start;
}

}  // namespace

ContextState::Dependencies ContextState::walk(const SendNode& send) {
  Dependencies found;
  if (!has_received_) return found;
  MutexLock lock(walks_);
  ska::flat_hash_set<const ReceivedHop*> seen;
  const auto reach = [&](const ReceivedHopPointer& hop) {
    if (seen.insert(hop.get()).second) found.reached.push_back(hop);
  };
  Walk walk(*this);
  // Exact, because edges never change once they are built: what an earlier send began with depends on the same hops as
  // then. A node that was merely walked over tells nothing of the sort.
  const auto beyond = [&](torch::autograd::Node* node) GRADWIRE_REQUIRES(walks_) {
    if (walk.nodes() > most_nodes_walked) found.open = true;
    if (found.open) return false;
    auto known = walked_.find(node);
    if (known == walked_.end()) return true;
    for (const ReceivedHopPointer& hop : known->second) reach(hop);
    return false;
  };
  for (const torch::autograd::Edge& edge : send.next_edges()) walk.from(edge.function.get(), beyond);
  for (const RecvNode* received : walk.received()) reach(received->hop());
  if (found.open)
    found.reached.clear();
  else if (const torch::autograd::Node* start = only_start(send))
    walked_[start] = found.reached;
  return found;
}

void ContextState::forget_walk(const SendNode& send) {
  MutexLock lock(walks_);
  if (const torch::autograd::Node* start = only_start(send)) walked_.erase(start);
}

std::vector<Ancestor> ContextState::lineage(const std::vector<ReceivedHopPointer>& reached, Incarnation receiver) {
  std::vector<Ancestor> all;
  ska::flat_hash_set<const ReceivedHop*> done;
  std::unordered_map<Id, size_t> listed;
  std::vector<ReceivedHopPointer> to_do = reached;
  MutexLock lock(mutex_);
  const auto list = [&](Ancestor ancestor) GRADWIRE_REQUIRES(mutex_) {
    // What this worker sent is closed here; what the receiver sent, there.
    if (ancestor.hop.maker == self_) {
      auto sent = sends_.find(ancestor.hop.counter);
      ancestor.open = sent == sends_.end() || sent->second.open;
      if (!ancestor.open && !listed.contains(ancestor.hop))
        to_do.insert(to_do.end(), sent->second.reached.begin(), sent->second.reached.end());
    }
    if (ancestor.hop.maker == receiver) ancestor.open = true;
    auto [place, is_new] = listed.emplace(ancestor.hop, all.size());
    if (is_new)
      all.push_back(std::move(ancestor));
    else
      // Known better from elsewhere: there it is listed with all that it depends on.
      all[place->second].open = all[place->second].open && ancestor.open;
  };
  while (!to_do.empty()) {
    const ReceivedHopPointer hop = std::move(to_do.back());
    to_do.pop_back();
    if (!done.insert(hop.get()).second) continue;
    const bool closed_there = hop->hop.maker == receiver;
    const bool too_many = receiver != Incarnation::none && all.size() > most_ancestors;
    list({.hop = hop->hop, .sender = hop->sender, .open = hop->open || closed_there || too_many});
    if (closed_there || hop->open || too_many) continue;
    for (const Ancestor& ancestor : hop->ancestors) list(ancestor);
  }
  return all;
}

}  // namespace gradwire::autograd
