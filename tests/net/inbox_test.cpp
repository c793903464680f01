// What a receiver does not believe its peer about shared memory. For what a peer says in frames see
// session_bad_bytes_test.cpp.
#include "gradwire/net/inbox.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "gradwire/net/outgoing.h"

namespace gradwire::net {
namespace {

using ::testing::HasSubstr;

class InboxTest : public ::testing::Test {
 protected:
  InboxTest() {
    frees->when_first([] {});
  }

  // Announces this segment, with its descriptor. Throws what the inbox throws.
  bool announce(const Segment& segment) {
    wire::ByteWriter payload;
    payload.put(uint32_t{1});
    payload.put(segment.id());
    payload.put(uint64_t{segment.size()});
    std::vector<Descriptor> descriptors;
    descriptors.emplace_back(dup(segment.descriptor()));
    return inbox.add_segments(payload.bytes(), descriptors, why);
  }

  const std::shared_ptr<FreeList> frees = std::make_shared<FreeList>();
  const std::shared_ptr<SegmentBudget> budget = std::make_shared<SegmentBudget>(size_t{1} << 30U);
  const std::shared_ptr<Blocks> blocks = std::make_shared<Blocks>(nullptr, std::make_shared<SegmentBudget>(0));
  Inbox inbox{{}, frees, blocks};
  std::string why;
};

template <class Action>
std::string text_of_malformed(Action action) {
  try {
    action();
  } catch (const wire::MalformedError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(InboxTest, C21_DoesNotReadATensorBeyondTheEndOfItsSegment) {
  SegmentPool pool(budget);
  const at::Tensor tensor = at::ones({100000});
  auto outgoing = encode_message({.type = MessageType{16}, .payload = {.tensors = {tensor}}}, &pool, *blocks);
  ASSERT_EQ(outgoing->loans.size(), 1U);
  const std::string_view payload = std::string_view(outgoing->frame).substr(frame_header_size);
  const uint64_t id = outgoing->loans[0].segment->id();
  ASSERT_TRUE(announce(*Segment::make(id, 65536)));
  EXPECT_THAT(text_of_malformed([&] { (void)inbox.open(1, payload); }),
              HasSubstr("part of 400000 bytes in segment 1, which is unknown or smaller"));
  wire::ByteWriter retired;
  retired.put(id);
  inbox.retire_segments(retired.bytes());
  ASSERT_TRUE(announce(*outgoing->loans[0].segment));
  EXPECT_TRUE(inbox.open(1, payload).arrival->take().tensors.at(0).equal(tensor)) << "in one that is large enough";
}

TEST_F(InboxTest, C21_TakesASegmentOnlyOnce) {
  ASSERT_TRUE(announce(*Segment::make(7, 65536)));
  EXPECT_THAT(text_of_malformed([&] { announce(*Segment::make(7, 65536)); }), HasSubstr("segment 7 given twice"));
}

}  // namespace
}  // namespace gradwire::net
