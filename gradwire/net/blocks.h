// Memory for what streams: large blocks that are kept and used again, because fresh pages cost several times what the
// copy into them costs. Bounded, together with segments; past the bound, and for what is small, ordinary memory.
#pragma once

#include <atomic>
#include <memory>

#include <c10/core/Allocator.h>

#include "gradwire/net/loop.h"
#include "gradwire/net/segment.h"

namespace gradwire::net {

// Any thread may use it; a block keeps it alive.
class Blocks : public std::enable_shared_from_this<Blocks> {
 public:
  Blocks(std::shared_ptr<Loop> loop, std::shared_ptr<SegmentBudget> budget)
      : loop_(std::move(loop)), pool_(std::move(budget), Sharing::none) {}

  // At least this many bytes, uninitialised, aligned for any tensor. Throws if the system has none.
  c10::DataPtr take(size_t size);
  // The same for bytes that were only announced: the memory becomes resident as they come.
  struct Announced {
    c10::DataPtr memory;
    std::shared_ptr<Segment> segment;  // none where it is ordinary memory
  };
  Announced take_announced(size_t size);

 private:
  Announced take(size_t size, Residence residence);
  void give_back(uint64_t id);
  // Gives up what lies idle, after a while, as long as there is something.
  void trim_later();

  const std::shared_ptr<Loop> loop_;
  SegmentPool pool_;
  std::atomic<bool> trimming_ = false;
};

}  // namespace gradwire::net
