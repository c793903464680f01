#include "gradwire/rpc/surroundings.h"

#include <utility>

#include <ATen/ThreadLocalState.h>

namespace gradwire {

Surroundings& Surroundings::here() {
  thread_local Surroundings surroundings;
  return surroundings;
}

SurroundingsGuard::SurroundingsGuard(Surroundings surroundings)
    : before_(std::exchange(Surroundings::here(), std::move(surroundings))) {}

SurroundingsGuard::~SurroundingsGuard() { Surroundings::here() = std::move(before_); }

struct CapturedSurroundings::State {
  Surroundings ours = Surroundings::here();
  at::ThreadLocalState torch;
};

CapturedSurroundings CapturedSurroundings::capture() {
  CapturedSurroundings captured;
  captured.state_ = std::make_shared<State>();
  return captured;
}

CapturedSurroundings CapturedSurroundings::capture(std::shared_ptr<Cancellation> cancellation) {
  auto state = std::make_shared<State>();
  state->ours.cancellation = std::move(cancellation);
  CapturedSurroundings captured;
  captured.state_ = std::move(state);
  return captured;
}

void CapturedSurroundings::apply() const {
  Surroundings::here() = state_->ours;
  at::ThreadLocalState::setThreadLocalState(state_->torch);
}

void CapturedSurroundings::run(const std::function<void()>& something) const {
  const SurroundingsGuard ours(state_->ours);
  const at::ThreadLocalStateGuard torch(state_->torch);
  something();
}

}  // namespace gradwire
