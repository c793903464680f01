#include "gradwire/net/channel.h"

#include <array>
#include <cstring>

namespace gradwire::net {

Transfer Channel::fill() {
  std::array<iovec, 2> buffers;
  size_t count = 0;
  const bool direct = in_chunk_ && destination_ != nullptr && buffered() == 0 && chunk_left_ > 0;
  if (direct) buffers[count++] = {destination_, chunk_left_};
  if (begin_ == end_) begin_ = end_ = 0;
  if (end_ == buffer_.size()) make_room();
  buffers[count++] = {buffer_.data() + end_, buffer_.size() - end_};
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
        std::memcpy(destination_, buffer_.data() + begin_, placed);
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
  event.header = decode_frame_header({buffer_.data() + begin_, frame_header_size});
  const size_t payload_size = event.header.payload_size;
  if (event.header.kind == FrameKind::chunk) {
    if (payload_size < chunk_prefix_size) throw wire::MalformedError("chunk without a place");
    if (buffered() < frame_header_size + chunk_prefix_size) return {};
    wire::ByteReader prefix({buffer_.data() + begin_ + frame_header_size, chunk_prefix_size});
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
  event.payload = {buffer_.data() + begin_ + frame_header_size, payload_size};
  begin_ += frame_header_size + payload_size;
  return event;
}

void Channel::place_chunk(char* destination) { destination_ = destination; }

void Channel::make_room() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
    end_ -= begin_;
    begin_ = 0;
  } else {
    // It grows with what has really arrived, not with what a header announces.
    buffer_.resize(2 * buffer_.size());
  }
}

}  // namespace gradwire::net
