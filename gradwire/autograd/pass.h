// One backward pass at one worker: what it waits for, and how it ends. docs/gradients.md tells the protocol.
//
//   B3  every planned hop gets exactly one gradient message
//   B5  one outcome: what fails anywhere fails everywhere
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "gradwire/autograd/context_state.h"
#include "gradwire/autograd/frame.h"
#include "gradwire/net/signal.h"

namespace gradwire::autograd {

struct PassOptions {
  bool retain_graph = false;
  bool create_graph = false;
  // Without a plan: every hop of the context takes part, and a gradient begins the pass where it has not begun.
  bool fast = false;
};

// Any thread.
class Pass {
 public:
  // Holds the context by a frame of its own.
  Pass(Id id, std::shared_ptr<Frame> frame, PassOptions options, RecordPointer root);

  Id id() const { return id_; }
  const PassOptions& options() const { return options_; }
  // The worker that decides the outcome.
  const RecordPointer& root() const { return root_; }
  bool is_root() const { return root_->incarnation == context().self(); }
  ContextState& context() const { return *frame_->context; }
  const std::shared_ptr<Frame>& frame() const { return frame_; }

  // Before it begins: this worker's sends that take part.
  void plan(std::map<uint64_t, ContextState::Sent> hops) GRADWIRE_EXCLUDES(mutex_);
  const std::map<uint64_t, ContextState::Sent>& planned() const { return planned_; }

  // Drops what is not planned, or was there before.
  void deliver(ArrivedGradient gradient) GRADWIRE_EXCLUDES(mutex_);
  // True once, when there is a gradient or more: for the thread that is to run it.
  bool should_start() GRADWIRE_EXCLUDES(mutex_);
  bool has_arrived() const GRADWIRE_EXCLUDES(mutex_);
  // The next gradient, if there is one.
  std::optional<ArrivedGradient> take() GRADWIRE_EXCLUDES(mutex_);
  // Throws the failure if there is one.
  void check() const GRADWIRE_EXCLUDES(mutex_);
  // False if it failed before.
  bool fail(std::exception_ptr cause) GRADWIRE_EXCLUDES(mutex_);
  bool failed() const { return failed_; }

  // The engine has done its part.
  void ran() GRADWIRE_EXCLUDES(mutex_);
  // True once: when the engine is through and a gradient came for every planned hop.
  bool finishes() GRADWIRE_EXCLUDES(mutex_);
  bool is_missing_any() GRADWIRE_EXCLUDES(mutex_);
  // Whether a gradient is missing that is to come from there.
  bool waits_for(Incarnation peer) GRADWIRE_EXCLUDES(mutex_);
  // A gradient was sent: of a fast pass, someone is to report that it was taken.
  void gave(Ancestor hop) GRADWIRE_EXCLUDES(mutex_);
  std::vector<Ancestor> given() GRADWIRE_EXCLUDES(mutex_);
  // From whom the next one may come; null: from no one.
  RecordPointer awaited() GRADWIRE_EXCLUDES(mutex_);

  // At the root.
  void limit(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  // When the limit is over: throws the failure if there is one, else TimeoutError (C8).
  void check_in_time() GRADWIRE_EXCLUDES(mutex_);
  void begin() { begun_ = true; }
  bool has_begun() const { return begun_; }
  void expect_done(const RecordPointer& participant) GRADWIRE_EXCLUDES(mutex_);
  void done(Incarnation participant) GRADWIRE_EXCLUDES(mutex_);
  // Of a fast pass: which gradients it has taken, and which it gave in turn.
  void done_by_hop(const std::vector<Id>& taken, const std::vector<Ancestor>& gave) GRADWIRE_EXCLUDES(mutex_);
  bool all_done() GRADWIRE_EXCLUDES(mutex_);
  bool takes_part(Incarnation peer) GRADWIRE_EXCLUDES(mutex_);
  std::vector<RecordPointer> participants() GRADWIRE_EXCLUDES(mutex_);
  // Those that are not done, and those whose gradients are missing: for an error.
  std::string whom_it_waits_for() GRADWIRE_EXCLUDES(mutex_);
  // While it is planned: answers to questions.
  void ask(Incarnation peer) GRADWIRE_EXCLUDES(mutex_);
  void reached(Incarnation peer, std::vector<Ancestor> ancestors) GRADWIRE_EXCLUDES(mutex_);
  // Whether all were answered; then also what the answers were.
  bool answered() GRADWIRE_EXCLUDES(mutex_);
  std::vector<Ancestor> take_answers() GRADWIRE_EXCLUDES(mutex_);

  // Messages of this pass that are to be written together; and those sessions, once.
  void write_later(const std::shared_ptr<net::Session>& session) GRADWIRE_EXCLUDES(mutex_);
  std::vector<std::shared_ptr<net::Session>> take_unwritten() GRADWIRE_EXCLUDES(mutex_);

  // For those who wait for any of this.
  net::Signal& signal() { return signal_; }

 private:
  void settle(Id hop, const RecordPointer& sender) GRADWIRE_REQUIRES(mutex_);

  const Id id_;
  const std::shared_ptr<Frame> frame_;
  const PassOptions options_;
  const RecordPointer root_;
  std::map<uint64_t, ContextState::Sent> planned_;  // constant once planned
  std::chrono::milliseconds timeout_{};
  std::atomic<bool> begun_ = false;
  std::atomic<bool> failed_ = false;
  net::Signal signal_;

  mutable Mutex mutex_;
  bool is_planned_ GRADWIRE_GUARDED_BY(mutex_) = false;
  std::set<uint64_t> missing_ GRADWIRE_GUARDED_BY(mutex_);
  std::deque<ArrivedGradient> arrived_ GRADWIRE_GUARDED_BY(mutex_);
  bool started_ GRADWIRE_GUARDED_BY(mutex_) = false;
  bool ran_ GRADWIRE_GUARDED_BY(mutex_) = false;
  bool finished_ GRADWIRE_GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ GRADWIRE_GUARDED_BY(mutex_);
  std::map<Incarnation, RecordPointer> participants_ GRADWIRE_GUARDED_BY(mutex_);
  std::map<Incarnation, RecordPointer> not_done_ GRADWIRE_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<net::Session>> unwritten_ GRADWIRE_GUARDED_BY(mutex_);
  std::vector<Ancestor> given_ GRADWIRE_GUARDED_BY(mutex_);
  // Gradients that were given and not reported as taken, or the other way round: reports come in any order.
  std::map<Id, RecordPointer> unsettled_ GRADWIRE_GUARDED_BY(mutex_);
  std::map<Incarnation, int> asked_ GRADWIRE_GUARDED_BY(mutex_);
  std::vector<Ancestor> answers_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire::autograd
