// AH, AO: what keeps a context on a worker. One frame for the Context object at its creator, one for each request
// received under the context, one for each pass. A frame is current in what runs under it, and is kept by the calls,
// Tasks and continuations that this started: when the last of them is over, so is the frame.
#pragma once

#include <atomic>
#include <memory>

#include "gradwire/autograd/hop.h"

namespace gradwire::autograd {

class ContextState;

// Any thread. May be destroyed under a session's lock.
class Frame {
 public:
  // Of a context that is held for it.
  explicit Frame(std::shared_ptr<ContextState> held, bool without_grad = false);
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  // The reply to the call that this is the frame of says `more`: its caller is told when the frame is over.
  void tell_when_over(RecordPointer caller, uint64_t call);

  const std::shared_ptr<ContextState> context;
  const bool no_grad;  // the caller has grad mode off: what is answered has no gradient either

 private:
  RecordPointer caller_;  // set before the frame's last use
  uint64_t call_ = 0;
};

}  // namespace gradwire::autograd
