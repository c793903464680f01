// What one worker keeps of one context: send nodes, gradients, passes.
//
//   A1  one send node for each recv node
//   A2  contexts do not touch each other: each has a lock of its own, and gradients live here, never in `.grad`
//   A3  released after the context's end, when the calls and passes under it are over: nothing stays
#pragma once

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "gradwire/autograd/hop.h"
#include "gradwire/autograd/nodes.h"
#include "gradwire/base/mutex.h"
#include "gradwire/rpc/exchange.h"

namespace gradwire::autograd {

class Contexts;
class Pass;

// A gradient on its way into a pass: a message, or, of a hop within this worker, the tensors themselves.
struct ArrivedGradient {
  uint64_t hop = 0;  // of this worker's sends
  std::vector<at::Tensor> tensors;
  std::shared_ptr<Received> message;
};

// Any thread. Locks: mutex_ is taken under a session's, and under that of Contexts; nothing is sent, run or destroyed
// under it. walks_ is held while a graph is walked, sums_ while gradients are added up: nothing is taken under them.
class ContextState {
 public:
  ContextState(std::weak_ptr<Contexts> contexts, Id id, RecordPointer creator, Incarnation self);

  Id id() const { return id_; }
  const RecordPointer& creator() const { return creator_; }
  bool created_here() const { return creator_->incarnation == self_; }
  Incarnation self() const { return self_; }
  std::shared_ptr<Contexts> contexts() const { return contexts_.lock(); }

  struct Sent {
    NodePointer node;
    RecordPointer receiver;
    std::vector<ReceivedHopPointer> reached;
    bool open = false;  // too much to walk: not known
  };

  // What a message of these tensors depends on: a walk that stops where an earlier one began. Empty if nothing was
  // received under this context.
  struct Dependencies {
    std::vector<ReceivedHopPointer> reached;
    bool open = false;
  };
  Dependencies walk(const SendNode& send) GRADWIRE_EXCLUDES(walks_, mutex_);
  // The walks that were made for a send that never left must not be used.
  void forget_walk(const SendNode& send) GRADWIRE_EXCLUDES(walks_);
  // The same for whoever receives: closed, as far as it does not know it itself. `none` closes for this worker.
  std::vector<Ancestor> lineage(const std::vector<ReceivedHopPointer>& reached, Incarnation receiver)
      GRADWIRE_EXCLUDES(mutex_);

  // False if the context was released.
  bool add_send(uint64_t hop, Sent sent) GRADWIRE_EXCLUDES(mutex_);
  std::optional<Sent> find_send(uint64_t hop) GRADWIRE_EXCLUDES(mutex_);
  std::map<uint64_t, Sent> all_sends() GRADWIRE_EXCLUDES(mutex_);
  void note_received() { has_received_ = true; }

  // Gradients of leaves that live here.
  at::Tensor gradient(const at::Tensor& leaf) GRADWIRE_EXCLUDES(sums_, mutex_);
  std::vector<std::pair<at::Tensor, at::Tensor>> gradients() GRADWIRE_EXCLUDES(sums_, mutex_);
  // As torch accumulates, and with the hooks that torch calls there.
  void accumulate(torch::autograd::Node* accumulator, at::Tensor gradient, bool create_graph) GRADWIRE_EXCLUDES(sums_);
  // A pass failed: its gradients are partial, and reading them throws its error.
  void poison(std::exception_ptr cause) GRADWIRE_EXCLUDES(mutex_);
  void throw_if_poisoned() GRADWIRE_EXCLUDES(mutex_);

  // Passes. A gradient that comes before its pass is kept; one that comes after it is dropped.
  // Takes what was kept for it. False if the context was released or is ending.
  bool add_pass(const std::shared_ptr<Pass>& pass) GRADWIRE_EXCLUDES(mutex_);
  void end_pass(Id pass) GRADWIRE_EXCLUDES(mutex_);
  struct EndedPass {
    bool fast = false;
    std::vector<Ancestor> given;  // of a fast one
  };
  std::optional<EndedPass> ended(Id pass) GRADWIRE_EXCLUDES(mutex_);
  // It was told that the pass has failed after all.
  void end_pass_heard(Id pass) GRADWIRE_EXCLUDES(mutex_);
  std::shared_ptr<Pass> find_pass(Id pass) GRADWIRE_EXCLUDES(mutex_);
  // The pass it is for, or null: it was kept or dropped.
  std::shared_ptr<Pass> pass_for(Id pass, Incarnation from, ArrivedGradient& gradient) GRADWIRE_EXCLUDES(mutex_);
  std::vector<std::shared_ptr<Pass>> passes() GRADWIRE_EXCLUDES(mutex_);
  // Nothing comes of the passes that it was the root of.
  void root_gone(Incarnation root) GRADWIRE_EXCLUDES(mutex_);

  // AH: holds, and the end. These return whether the context may be released now.
  void hold() GRADWIRE_EXCLUDES(mutex_);
  bool let_go() GRADWIRE_EXCLUDES(mutex_);
  bool end() GRADWIRE_EXCLUDES(mutex_);
  bool ending() GRADWIRE_EXCLUDES(mutex_);
  // Of the creator: those that were called under it, and those that told.
  void add_member(const RecordPointer& member) GRADWIRE_EXCLUDES(mutex_);
  void remove_member(Incarnation member) GRADWIRE_EXCLUDES(mutex_);

  // What is left of it when it is released; to be destroyed where users' code may run.
  struct Remains {
    std::vector<RecordPointer> members;
    std::unordered_map<uint64_t, Sent> sends;
    std::unordered_map<c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>> gradients;
    std::unordered_map<Id, std::vector<ArrivedGradient>> early;
  };
  // Null if it is held again.
  std::unique_ptr<Remains> release_if_over() GRADWIRE_EXCLUDES(mutex_, walks_, sums_);
  // Whatever holds it: the worker is gone.
  std::unique_ptr<Remains> release() GRADWIRE_EXCLUDES(mutex_, walks_, sums_);

  struct Counts {
    size_t holds = 0;
    size_t sends = 0;
    size_t gradients = 0;
    size_t passes = 0;
    size_t early_gradients = 0;
    size_t members = 0;
    bool ending = false;
  };
  Counts counts() GRADWIRE_EXCLUDES(mutex_, sums_);

 private:
  bool over() const GRADWIRE_REQUIRES(mutex_) { return holds_ == 0 && !released_ && (ending_ || created_here()); }
  std::unique_ptr<Remains> take_all() GRADWIRE_REQUIRES(mutex_);
  void take_walks_and_sums(Remains& remains) GRADWIRE_EXCLUDES(walks_, sums_);

  const std::weak_ptr<Contexts> contexts_;
  const Id id_;
  const RecordPointer creator_;
  const Incarnation self_;
  std::atomic<bool> has_received_ = false;

  Mutex walks_;
  // Where walks for live sends began, and what they found.
  std::unordered_map<const torch::autograd::Node*, std::vector<ReceivedHopPointer>> walked_ GRADWIRE_GUARDED_BY(walks_);

  // Held while gradients are added up, which may take long.
  Mutex sums_;
  bool closed_ GRADWIRE_GUARDED_BY(sums_) = false;
  std::unordered_map<c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>> gradients_ GRADWIRE_GUARDED_BY(sums_);

  Mutex mutex_;
  size_t holds_ GRADWIRE_GUARDED_BY(mutex_) = 0;
  bool ending_ GRADWIRE_GUARDED_BY(mutex_) = false;
  bool released_ GRADWIRE_GUARDED_BY(mutex_) = false;
  std::exception_ptr poison_ GRADWIRE_GUARDED_BY(mutex_);
  std::map<Incarnation, RecordPointer> members_ GRADWIRE_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Sent> sends_ GRADWIRE_GUARDED_BY(mutex_);
  std::unordered_map<Id, std::shared_ptr<Pass>> passes_ GRADWIRE_GUARDED_BY(mutex_);
  std::unordered_map<Id, EndedPass> ended_passes_ GRADWIRE_GUARDED_BY(mutex_);
  std::unordered_map<Id, std::vector<ArrivedGradient>> early_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire::autograd
