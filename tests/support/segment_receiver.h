// An inbox without a session, to which a test announces segments.
#pragma once

#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "gradwire/net/inbox.h"
#include "gradwire/net/segment.h"

namespace gradwire::testing {

struct SegmentReceiver {
  explicit SegmentReceiver(net::InboxLimits limits = {})
      : inbox(limits, frees, blocks, net::ArrivalBudget::of_process()) {
    frees->when_first([] {});
  }
  // Whether the segment was taken, with its descriptor; `why` says why not. Throws what the inbox throws.
  bool announce(const net::Segment& segment) {
    wire::ByteWriter payload;
    payload.put(uint32_t{1});
    payload.put(segment.id());
    payload.put(uint64_t{segment.size()});
    std::vector<net::Descriptor> descriptors;
    descriptors.emplace_back(dup(segment.descriptor()));
    return inbox.add_segments(payload.bytes(), descriptors, why);
  }
  void retire(uint64_t id) {
    wire::ByteWriter head;
    head.put(id);
    inbox.retire_segments(head.bytes());
  }
  const std::shared_ptr<net::FreeList> frees = std::make_shared<net::FreeList>();
  const std::shared_ptr<net::Blocks> blocks =
      std::make_shared<net::Blocks>(nullptr, std::make_shared<net::SegmentBudget>(0));
  net::Inbox inbox;
  std::string why;
};

}  // namespace gradwire::testing
