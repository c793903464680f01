// What is current on a thread while a function, a Task or a continuation runs: the worker, the cancellation, what the
// layers above keep here, and torch's thread-local state (grad mode and the like). It travels with Tasks over every
// suspension, and with continuations from where they were registered.
#pragma once

#include <functional>
#include <memory>

namespace gradwire {

class WorkerCore;
class Cancellation;

// Gradwire's own part. One thread.
struct Surroundings {
  std::shared_ptr<WorkerCore> worker;
  std::shared_ptr<Cancellation> cancellation;
  std::shared_ptr<void> context;           // of the autograd layer
  std::shared_ptr<const void> references;  // of the rref layer
  bool in_task = false;                    // a Task runs here: it suspends where others would wait
  bool no_grad = false;                    // for a function that begins: its caller has grad mode off

  // Of this thread.
  static Surroundings& here();
};

// For a while these are current; torch's state stays as it is.
class SurroundingsGuard {
 public:
  explicit SurroundingsGuard(Surroundings surroundings);
  ~SurroundingsGuard();
  SurroundingsGuard(const SurroundingsGuard&) = delete;
  SurroundingsGuard& operator=(const SurroundingsGuard&) = delete;

 private:
  Surroundings before_;
};

// A copy of all of it, torch's state included. Immutable, copyable; any thread.
class CapturedSurroundings {
 public:
  static CapturedSurroundings capture();
  // The same, with another cancellation.
  static CapturedSurroundings capture(std::shared_ptr<Cancellation> cancellation);
  // Makes them current on this thread, for good: for a coroutine that goes on, inside a `run` that tidies up after it.
  void apply() const;
  // Runs something under them, and puts back what was there.
  void run(const std::function<void()>& something) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace gradwire
