// The sending half of a session: numbers messages, keeps them until acknowledged, and says what to write next.
//
// Messages are written in the order of their numbers; chunks of large parts go between them, one at a time, so that a
// large transfer does not hold up small messages (S4). What is kept is bounded, and only messages that say so wait for
// room (S3).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include <c10/util/SmallVector.h>

#include "gradwire/net/frame.h"
#include "gradwire/net/link.h"
#include "gradwire/net/outgoing.h"

namespace gradwire::net {

enum class Admission {
  waits_for_room,  // requests
  always,          // replies and control messages: bounded by the requests they belong to
};

enum class Writing {
  soon,
  // With whatever is written next, when someone calls Session::flush, or after some milliseconds: whoever sends more at
  // once, and then flushes, pays for one system call and wakes the peer once.
  later,
};

// What one system call writes, and the rest of it if the call took only a part.
class Batch {
 public:
  bool empty() const { return next_ == buffers_.size(); }
  void clear();
  // Bytes that live elsewhere, kept by `owner`.
  void add(std::string_view bytes, std::shared_ptr<const void> owner);
  // Bytes that live here.
  void add(std::string bytes);
  void add_descriptor(int descriptor) { descriptors_.push_back(descriptor); }
  size_t size() const { return size_; }
  size_t buffer_count() const { return buffers_.size(); }
  size_t descriptor_count() const { return descriptors_.size(); }

  std::span<const iovec> buffers() const { return {buffers_.data() + next_, buffers_.size() - next_}; }
  std::span<const int> descriptors() const { return descriptors_; }
  void written(size_t bytes);

 private:
  std::vector<iovec> buffers_;
  size_t next_ = 0;
  size_t size_ = 0;
  std::vector<int> descriptors_;
  std::deque<std::string> own_;
  std::vector<std::shared_ptr<const void>> owners_;
};

// Guarded by the session's state lock, but for what a Batch refers to, which does not change while it is written.
class Outbox {
 public:
  explicit Outbox(size_t limit) : limit_(limit) {}

  // Gives the message its number and queues it, or, if it waits for room and there is none, keeps it until there is.
  // Returns its place in the order of joining; it is numbered once `admitted()` has reached that.
  uint64_t push(std::shared_ptr<Outgoing> message, Admission admission);
  uint64_t admitted() const { return admitted_; }

  // Why what a Hello says can not be true: of last handled (L6), or of a bulk's offset (L7). Empty if it can.
  std::string impossible(const Hello& hello) const;
  // Of the lists in a Hello that says what can be true.
  size_t most_list_bytes() const;
  // The link is new, and its Hello says what can be true. Everything the peer has not handled is written (again).
  // `unusable`: their pool, where no segment that the peer does not have yet can be passed to it on this link.
  void resume(const Hello& hello, SegmentPool* unusable);
  // Cumulative. False if it goes back, or beyond what was written (L6). What is not needed any more goes to `handled`:
  // to free many takes long, and is better done without the lock.
  using Handled = c10::SmallVector<std::shared_ptr<Outgoing>, 16>;
  bool acknowledge(uint64_t number, Handled& handled);
  // The peer has all of that bulk, or does not want it. False if there is none such.
  bool finish_bulk(uint64_t number, uint32_t part);

  // Fills an empty batch with what is next; `handled` is what to acknowledge with it.
  void gather(Batch& batch, uint64_t handled);

  // Nothing is on its way to the peer; what is to be written later may be here.
  bool idle() const { return next_ == 0 && waiting_.empty(); }
  // Nothing waits for room, and no bulk is unfinished.
  bool only_heads_left() const;
  uint64_t last_number() const { return last_number_; }
  uint64_t acknowledged() const { return acknowledged_; }
  size_t held_bytes() const { return held_bytes_; }
  // Of all messages so far.
  uint64_t bytes() const { return bytes_; }
  void clear();

 private:
  bool has_room(const Outgoing& message) const;
  void admit(std::shared_ptr<Outgoing> message);
  void admit_waiting();
  void release(size_t bytes);
  bool pass_segments(Batch& batch, const Outgoing& message);
  // Of the part whose turn it is.
  void add_chunk(Batch& batch, uint64_t handled);

  const size_t limit_;
  uint64_t last_number_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t joined_ = 0;
  uint64_t admitted_ = 0;
  size_t held_bytes_ = 0;
  uint64_t bytes_ = 0;
  // In the order of numbers; the first `next_` of them have been given to the link.
  std::deque<std::shared_ptr<Outgoing>> unacknowledged_;
  size_t next_ = 0;
  std::deque<std::shared_ptr<Outgoing>> waiting_;
  struct Stream {
    std::shared_ptr<Outgoing> message;
    size_t bulk = 0;
  };
  // Unfinished bulks of messages that were given to the link; each gets a chunk in turn.
  std::deque<Stream> streaming_;
  // Bulks wholly written, not yet said to be finished, which they mostly are in the same order.
  std::deque<Stream> sent_streams_;
  // Segments whose descriptors the peer has on this link.
  std::unordered_set<uint64_t> passed_;
  uint64_t acknowledged_by_us_ = 0;
};

}  // namespace gradwire::net
