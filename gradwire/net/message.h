// Messages as the layers above a session see them.
//
//   session.send({.type = ..., .head = ..., .payload = wire::encode(x, 2.0)}, Admission::waits_for_room);
//
// The head is small and is there when the message is handled, in the session's order. The payload's bytes and tensors
// may be large: on arrival they may still be under way (S4), and only who needs them waits.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gradwire/base/error.h"
#include "gradwire/base/mutex.h"
#include "gradwire/wire/payload.h"
#include "gradwire/wire/tensor.h"

namespace gradwire::net {

// What a message is for. The first few are the session's own; the layers above use `first_of_layers_above` onwards.
enum class MessageType : uint16_t {
  goodbye = 1,
  free_segments = 2,
  retire_segments = 3,
  first_of_layers_above = 16,
};

struct Message {
  MessageType type{};
  std::string head;
  wire::Payload payload;
  // What rides along is written in the step that queues the message, for a peer that is not gone: called once, under
  // the session's lock, so it is brief and sends nothing; destroyed, under the same lock, when the message has its
  // number.
  std::function<std::string()> board{};
};

// The payload of a message that has arrived, complete or not yet. Any thread may use it.
class Arrival {
 public:
  // Calls `then` once, when every byte is there or the session has ended: at once, or on the thread that reads the
  // last of it, in which case it must be brief.
  void when_settled(std::function<void()> then) GRADWIRE_EXCLUDES(mutex_);
  bool settled() GRADWIRE_EXCLUDES(mutex_);
  // What the tensors are, before their bytes are there.
  const std::vector<wire::TensorDescription>& descriptions() const { return descriptions_; }
  // Once, after it has settled. Throws PeerGoneError if the peer was gone before all had come, OverloadedError if there
  // was no memory for it, wire::MalformedError if the tensors are not what they claim.
  wire::Payload take() GRADWIRE_EXCLUDES(mutex_);

  // What arrives without a journey: a message to oneself. Its tensors are copied, as those of any message.
  static std::shared_ptr<Arrival> of(wire::Payload payload);

 private:
  friend class Inbox;
  enum class State { pending, complete, lost };
  // Again does nothing.
  void settle(State state, std::exception_ptr lost = nullptr) GRADWIRE_EXCLUDES(mutex_);

  // Constant after the header was handled; the memory of pending parts is written by the link's reader until settled.
  std::string body_;
  std::vector<wire::TensorDescription> descriptions_;
  std::vector<std::vector<c10::DataPtr>> parts_;

  Mutex mutex_;
  State state_ GRADWIRE_GUARDED_BY(mutex_) = State::pending;
  std::exception_ptr lost_ GRADWIRE_GUARDED_BY(mutex_);
  std::function<void()> then_ GRADWIRE_GUARDED_BY(mutex_);
};

struct Delivery {
  MessageType type{};
  std::string head;
  std::string boarded;
  // Nothing if the message was refused: then `refusal` says why (a bound), and its bytes are dropped as they come.
  std::shared_ptr<Arrival> arrival;
  std::string refusal;
  std::vector<wire::TensorDescription> refused_tensors;

  // What the tensors are, before their bytes are there.
  const std::vector<wire::TensorDescription>& tensors() const {
    return arrival ? arrival->descriptions() : refused_tensors;
  }
};

}  // namespace gradwire::net
