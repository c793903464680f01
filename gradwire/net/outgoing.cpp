#include "gradwire/net/outgoing.h"

#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "gradwire/base/error.h"

namespace gradwire::net {
namespace {

void put_placement(std::string& to, Placement placement, uint64_t segment = 0) {
  wire::ByteWriter writer;
  writer.put(static_cast<uint8_t>(placement));
  writer.put(segment);
  to += writer.bytes();
}

// Of the frame, and a little more: it is to grow once.
size_t expected_size(const Message& message, const std::vector<wire::FlatTensor>& tensors) {
  size_t descriptions = 0;
  size_t in_frame = message.payload.bytes.size() <= in_frame_limit ? message.payload.bytes.size() : 0;
  for (const wire::FlatTensor& tensor : tensors) {
    descriptions += 64 + sizeof(int64_t) * tensor.description.sizes.size();
    for (const auto& part : tensor.description.parts) {
      descriptions += placement_size;
      if (part.byte_count <= in_frame_limit) in_frame += part.byte_count;
    }
  }
  return frame_header_size + 64 + message.head.size() + descriptions + std::min(in_frame, in_frame_limit);
}

// Past the end of what can be counted stays there: a view may claim any number of elements.
uint64_t bytes_in(const at::Tensor& tensor) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(tensor.numel()), tensor.element_size(), &bytes))
    return std::numeric_limits<uint64_t>::max();
  return bytes;
}

uint64_t sum_of(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<uint64_t>::max() : sum;
}

void set_payload_size(std::string& frame) {
  const auto payload_size = static_cast<uint32_t>(frame.size() - frame_header_size);
  std::memcpy(frame.data(), &payload_size, sizeof payload_size);
}

}  // namespace

size_t Outgoing::held_bytes() const {
  return std::accumulate(bulks.begin(), bulks.end(), frame.size(),
                         [](size_t sum, const Bulk& bulk) { return sum + bulk.bytes.size(); });
}

size_t Outgoing::bytes() const {
  return std::accumulate(loans.begin(), loans.end(), held_bytes(),
                         [](size_t sum, const Loan& loan) { return sum + loan.size; });
}

void Outgoing::board(std::string_view bytes) {
  frame += bytes;
  const auto boarded_size = static_cast<uint32_t>(bytes.size());
  std::memcpy(frame.data() + frame_header_size + sizeof(uint16_t), &boarded_size, sizeof boarded_size);
  set_payload_size(frame);
}

void Outgoing::stream_from_segments(SegmentPool& pool) {
  for (Loan& loan : loans) {
    frame[placements_at + loan.part * placement_size] = static_cast<char>(Placement::stream);
    // The bulk keeps the segment's memory; the pool forgets it, because the peer may hold its descriptor.
    bulks.push_back({.part = loan.part, .bytes = {loan.segment->data(), loan.size}, .owner = loan.segment});
    pool.withdraw(loan.segment->id());
  }
  loans.clear();
}

uint64_t bytes_to_send(const wire::Payload& payload) {
  uint64_t bytes = payload.bytes.size();
  for (const at::Tensor& tensor : payload.tensors) {
    if (!tensor.defined()) continue;
    if (tensor.layout() == c10::Layout::Strided)
      bytes = sum_of(bytes, bytes_in(tensor));
    else if (tensor.layout() == c10::Layout::Sparse)
      bytes = sum_of(bytes, sum_of(bytes_in(tensor._indices()), bytes_in(tensor._values())));
    else if (tensor.layout() == c10::Layout::SparseCsr)
      bytes = sum_of(bytes, sum_of(bytes_in(tensor.crow_indices()),
                                   sum_of(bytes_in(tensor.col_indices()), bytes_in(tensor.values()))));
  }
  return bytes;
}

void encode_message(Outgoing& outgoing, Message&& message, SegmentPool* segments, Blocks& blocks) {
  if (message.payload.tensors.size() > most_tensors)
    throw InvalidArgumentError(
        fmt::format("a message with {} tensors; {} is the most. Send fewer at once, or stack them",
                    message.payload.tensors.size(), most_tensors));
  std::vector<wire::FlatTensor> flat;
  flat.reserve(message.payload.tensors.size());
  for (const at::Tensor& tensor : message.payload.tensors) flat.push_back(wire::flatten(tensor));

  wire::ByteWriter writer;
  std::string& frame = writer.bytes();
  frame.reserve(expected_size(message, flat));
  encode(frame, FrameHeader{.kind = FrameKind::message});
  writer.put(static_cast<uint16_t>(message.type));
  writer.put(uint32_t{0});  // what boards later
  writer.put(static_cast<uint32_t>(message.head.size()));
  writer.put_bytes(message.head);
  writer.put(static_cast<uint64_t>(message.payload.bytes.size()));
  writer.put(static_cast<uint32_t>(flat.size()));
  for (const wire::FlatTensor& tensor : flat) wire::encode(writer, tensor.description);

  // First where each part goes, then the small ones themselves.
  outgoing.placements_at = frame.size();
  size_t in_frame = 0;
  uint32_t part = 0;
  c10::SmallVector<const at::Tensor*, 8> small;
  const bool small_bytes = message.payload.bytes.size() <= in_frame_limit;
  if (small_bytes) {
    in_frame = message.payload.bytes.size();
    put_placement(frame, Placement::in_frame);
  } else {
    put_placement(frame, Placement::stream);
    auto owner = std::make_shared<std::string>(std::move(message.payload.bytes));
    outgoing.bulks.push_back({.part = part, .bytes = *owner, .owner = owner});
  }
  for (const wire::FlatTensor& tensor : flat) {
    for (size_t i = 0; i < tensor.parts.size(); ++i) {
      ++part;
      const size_t size = tensor.description.parts[i].byte_count;
      if (size <= in_frame_limit - in_frame) {
        in_frame += size;
        put_placement(frame, Placement::in_frame);
        small.push_back(&tensor.parts[i]);
      } else if (std::shared_ptr<Segment> segment =
                     segments != nullptr && size >= smallest_in_segment ? segments->lend(size) : nullptr) {
        outgoing.loans.push_back({.part = part, .size = size, .segment = segment});
        wire::copy_part(tensor.parts[i], segment->data());
        put_placement(frame, Placement::segment, segment->id());
      } else {
        auto memory = std::make_shared<c10::DataPtr>(blocks.take(size));
        wire::copy_part(tensor.parts[i], memory->get());
        put_placement(frame, Placement::stream);
        outgoing.bulks.push_back(
            {.part = part, .bytes = {static_cast<const char*>(memory->get()), size}, .owner = memory});
      }
    }
  }
  if (small_bytes) frame += message.payload.bytes;
  size_t at = frame.size();
  frame.resize(at + in_frame - (small_bytes ? message.payload.bytes.size() : 0));
  for (const at::Tensor* tensor : small) {
    wire::copy_part(*tensor, frame.data() + at);
    at += tensor->nbytes();
  }
  if (frame.size() - frame_header_size > most_before_boarding)
    throw InvalidArgumentError(fmt::format(
        "a message's head and the descriptions of its {} tensors take {} bytes; {} is the most. Send fewer at once",
        flat.size(), frame.size(), most_before_boarding));
  set_payload_size(frame);
  outgoing.frame = std::move(frame);
}

}  // namespace gradwire::net
