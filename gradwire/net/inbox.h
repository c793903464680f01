// The receiving half of a session: opens messages, puts chunks in their place, keeps the peer's segments mapped.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gradwire/base/error.h"
#include "gradwire/base/mutex.h"
#include "gradwire/net/arrival_budget.h"
#include "gradwire/net/blocks.h"
#include "gradwire/net/frame.h"
#include "gradwire/net/message.h"
#include "gradwire/net/segment.h"

namespace gradwire::net {

// Segments whose tensors have died, until the session tells the sender. Tensors die on any thread and under any lock,
// so nothing more than this happens there.
class FreeList {
 public:
  // Set once, before use: called when the list stops being empty.
  void when_first(std::function<void()> first) { first_ = std::move(first); }
  void add(uint64_t segment) GRADWIRE_EXCLUDES(mutex_);
  std::vector<uint64_t> take() GRADWIRE_EXCLUDES(mutex_);

 private:
  std::function<void()> first_;
  Mutex mutex_;
  std::vector<uint64_t> segments_ GRADWIRE_GUARDED_BY(mutex_);
};

struct InboxLimits {
  size_t largest_message = size_t{16} << 30U;
  // Of messages not yet complete, all together: what streams, and whatever else is kept for them. Not less than the
  // largest message by default: replies and gradients do not wait for each other, and none of them is to be refused for
  // coming second. All sessions of the process share a budget besides.
  size_t unfinished_bytes = size_t{16} << 30U;
  size_t segment_bytes = size_t{16} << 30U;
};

// Guarded by the session's order lock. What breaks the protocol throws wire::MalformedError and changes nothing.
class Inbox {
 public:
  // `budget` is that of all sessions of the process.
  Inbox(InboxLimits limits, std::shared_ptr<FreeList> frees, std::shared_ptr<Blocks> blocks,
        std::shared_ptr<ArrivalBudget> budget)
      : limits_(limits),
        frees_(std::move(frees)),
        blocks_(std::move(blocks)),
        unfinished_(std::make_shared<ArrivalBudget>(limits.unfinished_bytes)),
        budget_(std::move(budget)) {}

  // Opens the payload of the message frame with this number.
  Delivery open(uint64_t number, std::string_view payload);

  // Where the bytes of a chunk go; null if no one wants them any more, or there is no memory for them: then the arrival
  // is settled with an OverloadedError.
  char* destination(uint64_t number, const Chunk& chunk, size_t size);
  // All its bytes are there. True if its part is complete (or not wanted): the sender may be told.
  bool chunk_arrived(uint64_t number, const Chunk& chunk, size_t size);

  // The payload of a segments frame, with the descriptors that came along so far. Returns false, with the reason, if
  // descriptors cannot be taken (any more): the link is to be re-made without.
  bool add_segments(std::string_view payload, std::vector<Descriptor>& descriptors, std::string& why);
  void retire_segments(std::string_view head);

  std::vector<BulkOffset> unfinished() const;
  std::vector<uint64_t> segments() const;

  // Of all messages so far, with what is in segments and what is still to come.
  uint64_t bytes() const { return bytes_; }

  // The peer is gone: nothing more will come.
  void lose(const PeerGoneError& error);

 private:
  struct Bulk {
    std::shared_ptr<Arrival> arrival;
    char* memory = nullptr;  // null: the message's bytes, which grow as they come
    uint64_t size = 0;
    uint64_t received = 0;
    std::shared_ptr<Segment> segment{};           // that `memory` is in; none where it is ordinary memory
    std::shared_ptr<const ArrivalShare> share{};  // of its message, until all parts of that are complete
    bool dropped = false;                         // there was no memory for what has come
  };
  using Key = std::pair<uint64_t, uint32_t>;

  c10::DataPtr borrow(const std::shared_ptr<Segment>& segment);
  // Nothing, with the reason in `why`, if a message that is kept in so many bytes until it is complete finds no room.
  std::shared_ptr<const ArrivalShare> share_of(size_t bytes, std::string& why);

  const InboxLimits limits_;
  const std::shared_ptr<FreeList> frees_;
  const std::shared_ptr<Blocks> blocks_;
  const std::shared_ptr<ArrivalBudget> unfinished_;
  const std::shared_ptr<ArrivalBudget> budget_;
  std::map<Key, Bulk> bulks_;
  uint64_t bytes_ = 0;
  std::map<uint64_t, std::shared_ptr<Segment>> segments_;
  size_t segment_bytes_ = 0;
};

}  // namespace gradwire::net
