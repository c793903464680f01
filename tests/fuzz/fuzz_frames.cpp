// Everything that arrives on a link after Hello: frames, messages, chunks, segments, through the same reader and inbox
// as in a session.
#include <algorithm>
#include <cstring>

#include "gradwire/net/channel.h"
#include "gradwire/net/inbox.h"

namespace {

using namespace gradwire::net;

// A link that brings the fuzzer's bytes, in pieces.
class BytesLink : public Link {
 public:
  BytesLink(const char* data, size_t size) : data_(data), left_(size) {}
  Transfer write(std::span<const iovec>, std::span<const int>) override { return {.closed = true}; }
  Transfer read(std::span<const iovec> buffers, std::vector<Descriptor>&) override {
    size_t count = 0;
    for (const iovec& buffer : buffers) {
      const size_t part = std::min({buffer.iov_len, left_, size_t{97}});
      std::memcpy(buffer.iov_base, data_, part);
      data_ += part;
      left_ -= part;
      count += part;
      if (part < buffer.iov_len) break;
    }
    return {.bytes = count, .closed = count == 0};
  }
  void close() override {}
  void watch(std::function<void()>, std::function<void()>) override {}
  void want_readable(bool) override {}
  void want_writable() override {}
  int descriptor() const override { return -1; }
  bool passes_descriptors() const override { return false; }
  std::string kind() const override { return "bytes"; }

 private:
  const char* data_;
  size_t left_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto frees = std::make_shared<FreeList>();
  frees->when_first([] {});
  Inbox inbox({.largest_message = 1U << 20U, .unfinished_bytes = 1U << 20U, .segment_bytes = 1U << 20U}, frees,
              std::make_shared<Blocks>(nullptr, std::make_shared<SegmentBudget>(0)), ArrivalBudget::of_process());
  Channel channel(std::make_shared<BytesLink>(reinterpret_cast<const char*>(data), size));
  std::vector<std::shared_ptr<Arrival>> arrivals;
  uint64_t handled = 0;
  try {
    while (!channel.fill().closed) {
      for (;;) {
        const Channel::Event event = channel.next();
        if (event.kind == Channel::EventKind::none) break;
        if (event.kind == Channel::EventKind::chunk_begins) {
          channel.place_chunk(inbox.destination(event.header.number, event.chunk, event.chunk_size));
        } else if (event.kind == Channel::EventKind::chunk_ended) {
          inbox.chunk_arrived(event.header.number, event.chunk, event.chunk_size);
        } else if (event.header.kind == FrameKind::message) {
          Delivery delivery = inbox.open(++handled, event.payload);
          if (delivery.arrival) arrivals.push_back(delivery.arrival);
          if (delivery.type == MessageType::retire_segments) inbox.retire_segments(delivery.head);
        } else if (event.header.kind == FrameKind::segments) {
          std::string why;
          inbox.add_segments(event.payload, channel.descriptors(), why);
        }
      }
    }
  } catch (const gradwire::wire::MalformedError&) {
    // As it should be: the link is closed.
  }
  for (auto& arrival : arrivals) {
    if (!arrival->settled()) continue;
    try {
      arrival->take();
    } catch (const gradwire::wire::MalformedError&) {
      // A sparse tensor whose indices lie.
    }
  }
  inbox.lose(gradwire::PeerGoneError("over", "peer", gradwire::GoneReason::died));
  return 0;
}
