// Segments: shared memory in which large tensors go to a worker on the same host with one copy and no system call
// per byte. A segment is a sealed memfd; its descriptor crosses the Unix socket once per link, and both sides keep it
// mapped, because fresh mappings cost many times the copy.
//
// A segment belongs to one sender and one peer. The sender lends it to one message; when the receiver's tensor dies
// "free" comes back, and it is lent again. It is never lent again to anyone once the peer is gone: a peer that was
// declared dead may be stopped and still write.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "gradwire/base/mutex.h"
#include "gradwire/net/descriptor.h"
#include "gradwire/net/loop.h"

namespace gradwire::net {

// Who sees the memory of a segment.
enum class Sharing {
  with_peer,  // a memfd, whose descriptor can be passed on
  none,       // this process alone: it takes no descriptor, and a forked child has a copy
};

// When the memory of a segment becomes resident. One step for many pages is several times cheaper than a fault for
// each.
enum class Residence {
  at_once,        // it is written now
  as_bytes_come,  // its size was only announced: see `populate_behind`
};

// Mapped memory. Immutable but for the memory it names, which belongs to whoever the protocol says.
class Segment {
 public:
  // Nothing if the system refuses (out of memory or descriptors).
  static std::shared_ptr<Segment> make(uint64_t id, size_t size, Sharing sharing = Sharing::with_peer,
                                       Residence residence = Residence::at_once);
  // Maps one that was received. Seals and size are checked first: a file that can shrink would mean SIGBUS. What its
  // sender has not written takes no memory before it is read.
  // Nothing, with the reason in `why`, if it is not what it should be. Once it is mapped its descriptor is not kept.
  static std::shared_ptr<Segment> open(uint64_t id, size_t size, Descriptor file, std::string& why);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  uint64_t id() const { return id_; }
  size_t size() const { return size_; }
  char* data() const { return data_; }
  int descriptor() const { return file_.get(); }

  // The first so many bytes have been written: makes about as many behind them resident, for what comes next. Only for
  // the one who has borrowed it.
  void populate_behind(size_t written);

 private:
  Segment(uint64_t id, size_t size, Descriptor file, char* data, size_t populated)
      : id_(id), size_(size), file_(std::move(file)), data_(data), populated_(populated) {}
  const uint64_t id_;
  const size_t size_;
  const Descriptor file_;
  char* const data_;
  size_t populated_;  // its first bytes, which are resident
};

// The bounds that all pools of a process share: of memory, and of the descriptors that shared segments hold while they
// live, which the rest of the process needs too. Any thread.
class SegmentBudget {
 public:
  static constexpr size_t no_bound = std::numeric_limits<int64_t>::max();
  explicit SegmentBudget(size_t bytes, size_t descriptors = no_bound)
      : bytes_(static_cast<int64_t>(bytes)), descriptors_(static_cast<int64_t>(descriptors)) {}
  bool take(size_t bytes, size_t descriptors = 0);
  void give_back(size_t bytes, size_t descriptors = 0);

 private:
  std::atomic<int64_t> bytes_;
  std::atomic<int64_t> descriptors_;
};

// The sender's segments for one peer. Any thread.
class SegmentPool {
 public:
  explicit SegmentPool(std::shared_ptr<SegmentBudget> budget, Sharing sharing = Sharing::with_peer)
      : budget_(std::move(budget)), sharing_(sharing) {}
  ~SegmentPool();

  // A segment of at least this size; nothing past the bound, or after `clear`: then the tensor streams. One that was
  // used before is as resident as it was.
  std::shared_ptr<Segment> lend(size_t size, Residence residence = Residence::at_once) GRADWIRE_EXCLUDES(mutex_);
  // The receiver is done with it, or never heard of it. False if it was not lent: the peer breaks the protocol.
  bool take_back(uint64_t id, Time now) GRADWIRE_EXCLUDES(mutex_);
  // The peer cannot have it (no descriptors any more): forgotten when its last user is gone.
  void withdraw(uint64_t id) GRADWIRE_EXCLUDES(mutex_);
  // Gives up those that lie idle since then; returns their ids, and those of the ones given up to make room: the peer
  // is to be told.
  std::vector<uint64_t> retire_idle(Time since) GRADWIRE_EXCLUDES(mutex_);

  // The peer is gone: none is ever lent again.
  void clear() GRADWIRE_EXCLUDES(mutex_);

  size_t bytes() GRADWIRE_EXCLUDES(mutex_);
  size_t lent_count() GRADWIRE_EXCLUDES(mutex_);

  // Sizes are rounded up to four classes per doubling, so that tensors of nearly one size share segments.
  static size_t size_class(size_t size);

 private:
  struct Idle {
    std::shared_ptr<Segment> segment;
    Time since;
  };
  // Of so many segments, with so many bytes together.
  void drop(size_t size, size_t count = 1) GRADWIRE_REQUIRES(mutex_);
  size_t descriptors_of(size_t count) const { return sharing_ == Sharing::with_peer ? count : 0; }

  const std::shared_ptr<SegmentBudget> budget_;
  const Sharing sharing_;
  Mutex mutex_;
  uint64_t next_id_ GRADWIRE_GUARDED_BY(mutex_) = 1;
  bool cleared_ GRADWIRE_GUARDED_BY(mutex_) = false;
  size_t bytes_ GRADWIRE_GUARDED_BY(mutex_) = 0;
  size_t count_ GRADWIRE_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, std::shared_ptr<Segment>> lent_ GRADWIRE_GUARDED_BY(mutex_);
  // By size; the most recently used last, and used first: its pages are the warmest.
  std::map<size_t, std::vector<Idle>> idle_ GRADWIRE_GUARDED_BY(mutex_);
  std::vector<uint64_t> retired_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire::net
