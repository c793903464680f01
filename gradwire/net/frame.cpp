#include "gradwire/net/frame.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace gradwire::net {
namespace {

constexpr std::string_view magic = "GRADWIRE";
constexpr size_t kind_at = 4;
constexpr size_t number_at = 8;
constexpr size_t acknowledged_at = 16;

constexpr size_t record_at = magic.size() + sizeof(uint16_t) + sizeof(uint64_t);

void store(char* at, uint64_t value) { std::memcpy(at, &value, sizeof value); }

// How long the fixed part is, from the lengths of the strings in its record; nothing if they are not all there.
std::optional<size_t> fixed_part_size(std::string_view payload) {
  size_t size = record_at;
  // Behind the name come rank and incarnation, behind the host the user, behind the paths what follows the record.
  for (const size_t behind : {4 + 8, 4, 0, 3 * 8}) {
    if (payload.size() < size + sizeof(uint64_t)) return {};
    uint64_t length;
    std::memcpy(&length, payload.data() + size, sizeof length);
    size += sizeof length + behind;
    if (length > largest_fixed_part - std::min(size, largest_fixed_part))
      throw wire::MalformedError(
          fmt::format("Hello with a text of {} bytes; its fixed part has at most {}", length, largest_fixed_part));
    size += length;
  }
  return size;
}

}  // namespace

void encode(std::string& to, const FrameHeader& header) {
  char bytes[frame_header_size] = {};
  std::memcpy(bytes, &header.payload_size, sizeof header.payload_size);
  bytes[kind_at] = static_cast<char>(header.kind);
  store(bytes + number_at, header.number);
  store(bytes + acknowledged_at, header.acknowledged);
  to.append(bytes, sizeof bytes);
}

void patch_acknowledged(char* encoded_header, uint64_t acknowledged) {
  store(encoded_header + acknowledged_at, acknowledged);
}

void patch_number(char* encoded_header, uint64_t number) { store(encoded_header + number_at, number); }

FrameHeader decode_frame_header(std::string_view bytes) {
  wire::ByteReader reader(bytes);
  FrameHeader header;
  header.payload_size = reader.take<uint32_t>();
  const auto kind = reader.take<uint8_t>();
  if (kind < static_cast<uint8_t>(FrameKind::hello) || kind > static_cast<uint8_t>(FrameKind::pong))
    throw wire::MalformedError(fmt::format("frame of unknown kind {}", kind));
  header.kind = FrameKind{kind};
  if (reader.take_bytes(3) != std::string_view("\0\0\0", 3))
    throw wire::MalformedError("frame with reserved bytes that are not zero");
  header.number = reader.take<uint64_t>();
  header.acknowledged = reader.take<uint64_t>();
  if (header.payload_size > largest_frame_payload)
    throw wire::MalformedError(
        fmt::format("frame of {} bytes; {} is the most", header.payload_size, largest_frame_payload));
  return header;
}

std::string encode_hello(const Hello& hello) {
  wire::ByteWriter payload;
  payload.put_bytes(magic);
  payload.put(hello.version);
  payload.put(hello.features);
  encode(payload, hello.mine);
  payload.put(static_cast<uint64_t>(hello.yours));
  payload.put(hello.attempt);
  payload.put(hello.last_handled);
  payload.put(static_cast<uint32_t>(hello.unfinished_bulks.size()));
  for (const BulkOffset& bulk : hello.unfinished_bulks) {
    payload.put(bulk.number);
    payload.put(bulk.part);
    payload.put(bulk.offset);
  }
  payload.put(static_cast<uint32_t>(hello.segments.size()));
  for (uint64_t segment : hello.segments) payload.put(segment);
  std::string frame;
  encode(frame, {.payload_size = static_cast<uint32_t>(payload.size()), .kind = FrameKind::hello});
  frame += payload.bytes();
  return frame;
}

std::optional<FixedPart> decode_fixed_part(std::string_view payload) {
  const size_t magic_there = std::min(payload.size(), magic.size());
  if (payload.substr(0, magic_there) != magic.substr(0, magic_there))
    throw wire::MalformedError("Hello does not begin with GRADWIRE");
  if (payload.size() < magic.size() + sizeof(uint16_t)) return {};
  wire::ByteReader reader(payload);
  reader.take_bytes(magic.size());
  FixedPart part;
  Hello& hello = part.hello;
  hello.version = reader.take<uint16_t>();
  part.size = reader.position();
  if (hello.version != protocol_version) return part;
  const std::optional<size_t> size = fixed_part_size(payload);
  if (!size || payload.size() < *size) return {};
  hello.features = reader.take<uint64_t>();
  hello.mine = decode_record(reader);
  if (hello.mine.incarnation == Incarnation::none) throw wire::MalformedError("Hello without an incarnation");
  hello.yours = Incarnation{reader.take<uint64_t>()};
  hello.attempt = reader.take<uint64_t>();
  hello.last_handled = reader.take<uint64_t>();
  part.size = reader.position();
  return part;
}

Hello decode_hello(std::string_view payload) {
  std::optional<FixedPart> part = decode_fixed_part(payload);
  if (!part) throw wire::MalformedError("Hello ends in its fixed part");
  Hello hello = std::move(part->hello);
  if (hello.version != protocol_version) return hello;
  wire::ByteReader reader(payload.substr(part->size));
  const auto count_of = [&reader](size_t element_size, const char* what) {
    const auto count = reader.take<uint32_t>();
    if (count > reader.remaining() / element_size)
      throw wire::MalformedError(fmt::format("Hello lists {} {}, and ends before them", count, what));
    return count;
  };
  hello.unfinished_bulks.resize(count_of(listed_bulk_size, "bulks"));
  for (BulkOffset& bulk : hello.unfinished_bulks) {
    bulk.number = reader.take<uint64_t>();
    bulk.part = reader.take<uint32_t>();
    bulk.offset = reader.take<uint64_t>();
  }
  hello.segments.resize(count_of(listed_segment_size, "segments"));
  for (uint64_t& segment : hello.segments) segment = reader.take<uint64_t>();
  reader.expect_end("Hello");
  return hello;
}

std::string encode_plain(FrameKind kind, uint64_t number, uint64_t acknowledged) {
  std::string frame;
  encode(frame, {.kind = kind, .number = number, .acknowledged = acknowledged});
  return frame;
}

}  // namespace gradwire::net
