// What crosses a link: frames. docs/protocol.md gives the layouts byte by byte.
//
// A frame is a header of 24 bytes and a payload. The first frame each way is Hello; it carries the version, so that
// everything behind it may change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gradwire/base/id.h"
#include "gradwire/net/record.h"
#include "gradwire/wire/bytes.h"

namespace gradwire::net {

inline constexpr uint16_t protocol_version = 1;
inline constexpr size_t frame_header_size = 24;
// Beyond this a frame is malformed: whatever is large travels in chunks or segments.
inline constexpr size_t largest_frame_payload = 16U << 20U;
// Hello up to its lists, which is all that a stranger may make a worker keep.
inline constexpr size_t largest_fixed_part = 4096;
// No honest side dials so often; beyond it the next attempt could not be counted.
inline constexpr uint64_t largest_attempt = (uint64_t{1} << 63U) - 1;

enum class FrameKind : uint8_t {
  hello = 1,
  refused = 2,       // number: the highest attempt seen
  not_me = 3,        // another incarnation, or another service, lives at this address
  fenced = 4,        // you are dead to me
  incompatible = 5,  // payload: why, in a sentence
  message = 6,       // number: the message's
  acknowledgement = 7,
  chunk = 8,          // number: the message's; payload: part, offset, bytes
  bulk_finished = 9,  // number: the message's; payload: part
  segments = 10,      // payload: the segments whose descriptors come along
  ping = 11,
  pong = 12,
};

struct FrameHeader {
  uint32_t payload_size = 0;
  FrameKind kind{};
  uint64_t number = 0;
  // Cumulative: the last message of the other side that was handled here.
  uint64_t acknowledged = 0;
};

void encode(std::string& to, const FrameHeader& header);
// Overwrites the acknowledgement in an encoded header: a frame may wait, and be sent again, long after it was made.
void patch_acknowledged(char* encoded_header, uint64_t acknowledged);
void patch_number(char* encoded_header, uint64_t number);
// Throws wire::MalformedError. `bytes` holds frame_header_size.
FrameHeader decode_frame_header(std::string_view bytes);

// Optional abilities, one bit each; both sides use what both have.
enum class Feature : uint64_t {
  // This side can take descriptors on this link now (segments); without it tensors stream.
  descriptors = 1U << 0U,
};

// Where an unfinished bulk stands at its receiver.
struct BulkOffset {
  uint64_t number = 0;
  uint32_t part = 0;
  uint64_t offset = 0;
};

struct Hello {
  uint16_t version = protocol_version;
  uint64_t features = 0;
  Record mine;
  Incarnation yours = Incarnation::none;
  uint64_t attempt = 0;
  uint64_t last_handled = 0;
  std::vector<BulkOffset> unfinished_bulks;
  std::vector<uint64_t> segments;

  bool has(Feature feature) const { return (features & static_cast<uint64_t>(feature)) != 0; }
};

std::string encode_hello(const Hello& hello);  // a whole frame
// Throws wire::MalformedError; one of another version is decoded only as far as the version.
Hello decode_hello(std::string_view payload);

// What stands before the lists in Hello, and how many bytes of the payload that takes.
struct FixedPart {
  Hello hello;
  size_t size = 0;
};
// From the beginning of a payload. Nothing if more bytes are needed; of another version, only the version.
// Throws wire::MalformedError.
std::optional<FixedPart> decode_fixed_part(std::string_view payload);
// The sizes of the lists behind it.
inline constexpr size_t empty_lists_size = 8;
inline constexpr size_t listed_bulk_size = 20;
inline constexpr size_t listed_segment_size = 8;

// A frame without payload.
std::string encode_plain(FrameKind kind, uint64_t number = 0, uint64_t acknowledged = 0);

struct Chunk {
  uint32_t part = 0;
  uint64_t offset = 0;
};
inline constexpr size_t chunk_prefix_size = 12;

}  // namespace gradwire::net
