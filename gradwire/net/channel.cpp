#include "gradwire/net/channel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

namespace gradwire::net {
namespace {

constexpr size_t usual_buffer = size_t{64} * 1024;
// What a large frame made larger than this is given back behind that frame.
constexpr size_t kept_buffer = size_t{256} * 1024;

}  // namespace

Transfer Channel::fill() {
  std::array<iovec, 2> buffers;
  size_t count = 0;
  const bool direct = in_chunk_ && destination_ != nullptr && buffered() == 0 && chunk_left_ > 0;
  if (direct) buffers[count++] = {destination_, chunk_left_};
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (capacity_ < usual_capacity() || capacity_ > kept_buffer) resize(usual_capacity());
  }
  if (end_ == capacity_) make_room();
  buffers[count++] = {buffer_.get() + end_, capacity_ - end_};
  const Transfer transfer = link_->read({buffers.data(), count}, descriptors_);
  size_t got = transfer.bytes;
  if (direct) {
    const size_t placed = std::min(got, chunk_left_);
    destination_ += placed;
    chunk_left_ -= placed;
    got -= placed;
  }
  end_ += got;
  return transfer;
}

Channel::Event Channel::next() {
  if (in_chunk_) {
    const size_t placed = std::min(buffered(), chunk_left_);
    if (placed > 0) {
      if (destination_ != nullptr) {
        std::memcpy(destination_, buffer_.get() + begin_, placed);
        destination_ += placed;
      }
      begin_ += placed;
      chunk_left_ -= placed;
    }
    if (chunk_left_ > 0) return {};
    in_chunk_ = false;
    Event ended = chunk_;
    ended.kind = EventKind::chunk_ended;
    return ended;
  }
  if (buffered() < frame_header_size) return {};
  Event event;
  event.header = decode_frame_header({buffer_.get() + begin_, frame_header_size});
  const size_t payload_size = event.header.payload_size;
  if (payload_size > largest_payload_)
    throw wire::MalformedError(fmt::format("frame of {} bytes; {} is the most here", payload_size, largest_payload_));
  if (event.header.kind == FrameKind::chunk) {
    if (payload_size < chunk_prefix_size) throw wire::MalformedError("chunk without a place");
    if (buffered() < frame_header_size + chunk_prefix_size) return {};
    wire::ByteReader prefix({buffer_.get() + begin_ + frame_header_size, chunk_prefix_size});
    event.kind = EventKind::chunk_begins;
    event.chunk.part = prefix.take<uint32_t>();
    event.chunk.offset = prefix.take<uint64_t>();
    event.chunk_size = payload_size - chunk_prefix_size;
    begin_ += frame_header_size + chunk_prefix_size;
    in_chunk_ = true;
    chunk_ = event;
    destination_ = nullptr;
    chunk_left_ = event.chunk_size;
    return event;
  }
  if (buffered() < frame_header_size + payload_size) return event;
  event.kind = EventKind::frame;
  event.payload = {buffer_.get() + begin_ + frame_header_size, payload_size};
  begin_ += frame_header_size + payload_size;
  return event;
}

void Channel::place_chunk(char* destination) { destination_ = destination; }

size_t Channel::usual_capacity() const { return std::min(usual_buffer, frame_header_size + largest_payload_); }

void Channel::make_room() {
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, buffered());
    end_ -= begin_;
    begin_ = 0;
  } else {
    // It grows with what has really arrived, not with what a header announces; the largest frame fits.
    resize(std::max(usual_capacity(), std::min(2 * capacity_, frame_header_size + largest_payload_)));
  }
}

void Channel::resize(size_t capacity) {
  auto larger = std::make_unique_for_overwrite<char[]>(capacity);
  if (buffered() > 0) std::memcpy(larger.get(), buffer_.get() + begin_, buffered());
  end_ = buffered();
  begin_ = 0;
  buffer_ = std::move(larger);
  capacity_ = capacity;
}

}  // namespace gradwire::net
