// A link with the frames read from it: the reading half of a session's connection.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "gradwire/net/frame.h"
#include "gradwire/net/link.h"

namespace gradwire::net {

// One thread at a time: guarded by the order lock of the session that has it, or by the loop before one has.
class Channel {
 public:
  explicit Channel(std::shared_ptr<Link> link, size_t largest_payload = largest_frame_payload)
      : link_(std::move(link)), largest_payload_(largest_payload) {}
  // A frame with more is malformed, and not more is buffered. Small until the other side has said who it is.
  void set_largest_payload(size_t bytes) { largest_payload_ = bytes; }

  Link& link() const { return *link_; }
  const std::shared_ptr<Link>& shared_link() const { return link_; }
  std::vector<Descriptor>& descriptors() { return descriptors_; }

  // Reads once from the link. Complete events, if any, come from `next`.
  Transfer fill();

  enum class EventKind { none, frame, chunk_begins, chunk_ended };
  struct Event {
    EventKind kind = EventKind::none;
    FrameHeader header;
    // Of a frame; valid until the next `fill`.
    std::string_view payload;
    // Of a chunk: where it belongs, and how many bytes it has. Its bytes do not pass through the buffer if they need
    // not: after `chunk_begins`, say with `place_chunk` where they go; `chunk_ended` follows when all are there.
    Chunk chunk;
    size_t chunk_size = 0;
  };
  // Throws wire::MalformedError. An event of kind `none` has the header of the frame that is under way, as soon as
  // that is there: its size may be reason enough not to wait for the rest.
  Event next();
  // Null: the bytes are dropped.
  void place_chunk(char* destination);
  // What was read and has not come out of `next`; valid until the next `fill`.
  std::string_view unread() const { return {buffer_.get() + begin_, buffered()}; }
  // How many bytes the buffer holds.
  size_t capacity() const { return capacity_; }

 private:
  size_t buffered() const { return end_ - begin_; }
  size_t usual_capacity() const;
  void make_room();
  void resize(size_t capacity);

  const std::shared_ptr<Link> link_;
  size_t largest_payload_;
  std::unique_ptr<char[]> buffer_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::vector<Descriptor> descriptors_;
  bool in_chunk_ = false;
  Event chunk_;
  char* destination_ = nullptr;
  size_t chunk_left_ = 0;
};

}  // namespace gradwire::net
