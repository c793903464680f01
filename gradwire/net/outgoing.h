// A message on its way out: encoded once, when it is sent, so that it owns its data from then on, and kept until the
// peer has it. docs/protocol.md, "Message frames".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gradwire/net/blocks.h"
#include "gradwire/net/frame.h"
#include "gradwire/net/message.h"
#include "gradwire/net/segment.h"

namespace gradwire::net {

// What a part (the bytes, or one dense piece of a tensor) of a message travels in.
enum class Placement : uint8_t {
  in_frame = 0,  // small: in the message's own frame
  stream = 1,    // in chunks behind it
  segment = 2,   // in shared memory that both sides have mapped
};

inline constexpr size_t placement_size = 9;          // kind and segment id
inline constexpr size_t in_frame_limit = 64 * 1024;  // all small parts of a message together
// A segment takes a descriptor and pages of its own: what is smaller and finds no room in the frame streams.
inline constexpr size_t smallest_in_segment = 64 * 1024;
inline constexpr size_t most_tensors = size_t{1} << 18U;
// Of the frame; the other half is for what boards, when nothing can be refused any more.
inline constexpr size_t most_before_boarding = largest_frame_payload / 2;

// Constant once queued, but for what the session's lock guards.
struct Outgoing {
  // A part that streams.
  struct Bulk {
    uint32_t part = 0;
    std::string_view bytes;
    std::shared_ptr<const void> owner;
    // Guarded by the session's state lock:
    uint64_t offset = 0;
    bool finished = false;
  };
  // A part in a segment.
  struct Loan {
    uint32_t part = 0;
    size_t size = 0;
    std::shared_ptr<Segment> segment;
  };

  std::string frame;
  size_t placements_at = 0;
  std::vector<Bulk> bulks;
  std::vector<Loan> loans;
  uint64_t number = 0;
  // What rode along; kept until the message has its number, so that nothing said later overtakes it.
  std::function<std::string()> passengers;

  // What it keeps in memory until acknowledged; segments have a bound of their own.
  size_t held_bytes() const;
  // What goes to the peer, in segments too.
  size_t bytes() const;
  // Adds what rides along; before it is queued.
  void board(std::string_view bytes);
  // For a peer that cannot take descriptors: what was to go in segments streams from them instead.
  void stream_from_segments(SegmentPool& pool);
};

// How many bytes the payload is, without what describes it. Copies nothing.
uint64_t bytes_to_send(const wire::Payload& payload);

// Copies every tensor. Large ones go into segments of the pool; without one, or past its bound, they stream.
// Throws InvalidArgumentError for a tensor that cannot travel, too many of them, or a head that is not small; what was
// lent by then is among the loans, for the caller to give back.
void encode_message(Outgoing& outgoing, Message&& message, SegmentPool* segments, Blocks& blocks);

}  // namespace gradwire::net
