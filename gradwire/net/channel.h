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
  explicit Channel(std::shared_ptr<Link> link) : link_(std::move(link)), buffer_(64 * 1024) {}

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

 private:
  size_t buffered() const { return end_ - begin_; }
  void make_room();

  const std::shared_ptr<Link> link_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::vector<Descriptor> descriptors_;
  bool in_chunk_ = false;
  Event chunk_;
  char* destination_ = nullptr;
  size_t chunk_left_ = 0;
};

}  // namespace gradwire::net
