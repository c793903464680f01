// The section of contexts in a message, and the messages of contexts and passes: docs/gradients.md, "Bytes".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gradwire/autograd/hop.h"
#include "gradwire/net/message.h"
#include "gradwire/rref/reference_section.h"
#include "gradwire/wire/bytes.h"

namespace gradwire::autograd {

inline constexpr net::MessageType member_type{32};    // -> creator: this worker has the context
inline constexpr net::MessageType end_type{33};       // creator -> member
inline constexpr net::MessageType over_type{34};      // callee -> caller: the call of which the reply said `more`
inline constexpr net::MessageType ask_type{35};       // root -> participant: what do these hops depend on?
inline constexpr net::MessageType reached_type{36};   // the answer
inline constexpr net::MessageType begin_type{37};     // root -> participant
inline constexpr net::MessageType gradient_type{38};  // receiver of a hop -> its sender
inline constexpr net::MessageType done_type{39};      // participant -> root
inline constexpr net::MessageType fail_type{40};      // either way, with the cause

// The message is a hop.
struct HopSection {
  uint64_t counter = 0;
  std::vector<uint32_t> tensors;  // which of the message's
  bool open = false;
  std::vector<Ancestor> ancestors;
};

// In requests and replies, and in gradients that are to be differentiated again.
struct ContextSection {
  Id context;
  RecordPointer creator;  // of a request, unless the sender or the receiver is it
  bool no_grad = false;   // of a request: its caller has grad mode off
  // Of a reply: work goes on under the context, and `Over` will follow.
  std::optional<uint64_t> more;

  std::optional<HopSection> hop;
};

void encode(wire::ByteWriter& to, const ContextSection& section, const RecordPointer& sender,
            const RecordPointer& receiver);
// These throw MalformedError. Sender and receiver of the message are known.
ContextSection decode_context_section(std::string_view bytes, const RecordPointer& sender,
                                      const RecordPointer& receiver);

void encode(wire::ByteWriter& to, const std::vector<Ancestor>& ancestors, const RecordPointer& sender,
            const RecordPointer& receiver);
std::vector<Ancestor> decode_ancestors(wire::ByteReader& from, const RecordPointer& sender,
                                       const RecordPointer& receiver);

// Counters of the hops that one worker sent.
void encode(wire::ByteWriter& to, const std::vector<uint64_t>& hops);
std::vector<uint64_t> decode_hops(wire::ByteReader& from);

// Why a pass failed: PeerGoneError as itself, everything else as RemoteError.
std::string encode_cause(const std::exception_ptr& cause, const std::string& worker);
std::exception_ptr decode_cause(std::string_view bytes, const std::string& worker);

}  // namespace gradwire::autograd
