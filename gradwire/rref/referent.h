// What a reference refers to, at its owner: the value, or the future of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gradwire/base/mutex.h"
#include "gradwire/net/runtime.h"
#include "gradwire/rpc/kept.h"

namespace gradwire {

// Any thread.
class Referent : public std::enable_shared_from_this<Referent> {
 public:
  // Either of these, once; again does nothing.
  void keep(Kept kept) GRADWIRE_EXCLUDES(mutex_);
  // An error as error_on_wire.h writes it.
  void fail(std::string error) GRADWIRE_EXCLUDES(mutex_);

  bool ready() const GRADWIRE_EXCLUDES(mutex_);
  // Runs `then` at once if it is ready, else on the thread that makes it so; under no lock.
  void when_ready(std::function<void()> then) GRADWIRE_EXCLUDES(mutex_);
  // Once ready: constant from then on. Null if it failed.
  const Kept* kept() const { return outcome_->error.empty() ? &outcome_->kept : nullptr; }
  const std::string& error() const { return outcome_->error; }

  // A place in the order of arrival, for types whose calls run one at a time: taken when the call arrives, over when
  // this is destroyed.
  class Turn {
   public:
    explicit Turn(std::shared_ptr<Referent> referent);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // Once all turns before this are over: here, if they are, else on one of the runtime's threads.
    void run(std::function<void()> body, std::shared_ptr<net::Runtime> runtime);

   private:
    const std::shared_ptr<Referent> referent_;
    uint64_t number_ = 0;
  };

 private:
  struct Outcome {
    Kept kept;
    std::string error;
  };
  void settle(Outcome outcome) GRADWIRE_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  std::optional<Outcome> outcome_;  // written once, under the mutex
  std::vector<std::function<void()>> waiting_ GRADWIRE_GUARDED_BY(mutex_);
  uint64_t next_turn_ GRADWIRE_GUARDED_BY(mutex_) = 0;
  // Those not over, in order, with what starts those that wait.
  std::map<uint64_t, std::function<void()>> turns_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire
