// The receiver's account of a sender's segments: what is free again, and what counts against the bound.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "gradwire/net/inbox.h"
#include "gradwire/net/outgoing.h"

#include "tests/support/segment_receiver.h"
#include "tests/support/socket_end.h"

namespace gradwire::net {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SegmentReceiver;
using ::testing::SizeIs;

TEST(InboxSegments, OfARefusedMessageAreFreeAtOnce) {
  constexpr int64_t size = 100'000;
  SegmentReceiver receiver({.largest_message = 1000});
  SegmentPool pool(std::make_shared<SegmentBudget>(SegmentPool::size_class(size)));
  Outgoing outgoing;
  // The budget is for one segment: the first tensor goes in it, the second streams and is more than is taken.
  const at::Tensor tensor = at::ones({size}, at::kByte);
  encode_message(outgoing, {.type = MessageType{16}, .payload = {.tensors = {tensor, tensor}}}, &pool,
                 *receiver.blocks);
  ASSERT_THAT(outgoing.loans, SizeIs(1));
  ASSERT_THAT(outgoing.bulks, SizeIs(1));
  const uint64_t id = outgoing.loans[0].segment->id();
  ASSERT_TRUE(receiver.announce(*outgoing.loans[0].segment)) << receiver.why;
  const Delivery delivery = receiver.inbox.open(1, std::string_view(outgoing.frame).substr(frame_header_size));
  ASSERT_EQ(delivery.arrival, nullptr);
  EXPECT_THAT(receiver.frees->take(), ElementsAre(id)) << "else its sender never lends it again";
  EXPECT_TRUE(pool.take_back(id, Time()));
  EXPECT_EQ(pool.lent_count(), 0U);
}

TEST(InboxSegments, S3_ThatWereRetiredDoNotCountAgainstTheBound) {
  constexpr size_t size = 64 * 1024;
  SegmentReceiver receiver({.segment_bytes = 2 * size});
  for (uint64_t id = 1; id <= 10; ++id) {
    ASSERT_TRUE(receiver.announce(*Segment::make(id, size))) << id << ": " << receiver.why;
    EXPECT_THAT(receiver.inbox.segments(), ElementsAre(id));
    receiver.retire(id);
    EXPECT_THAT(receiver.inbox.segments(), IsEmpty());
  }
  ASSERT_TRUE(receiver.announce(*Segment::make(11, size)));
  ASSERT_TRUE(receiver.announce(*Segment::make(12, size)));
  EXPECT_FALSE(receiver.announce(*Segment::make(13, size))) << "the bound still holds for those that are not retired";
}

// Each size takes the place of the other in the sender's budget. The link is made anew where the bound creeps.
TEST(InboxSegments, S3_OfSizesThatAlternateStayWithinTheReceiversBound) {
  using namespace std::chrono_literals;
  constexpr size_t mebibyte = size_t{1} << 20U;
  const SessionOptions ticks_often{.peer_timeout = 4s};
  testing::SocketEnd a("a", ticks_often, {}, 8 * mebibyte);
  testing::SocketEnd b("b", {.peer_timeout = 4s, .inbox = {.segment_bytes = 16 * mebibyte}});
  const auto session = a.session(b.record());
  for (uint64_t i = 0; i < 4; ++i) {
    const auto size = static_cast<int64_t>((i % 2 == 0 ? 6 : 8) * mebibyte);
    session->send({.type = MessageType{16}, .payload = {.tensors = {at::full({size}, 1, at::kByte)}}},
                  Admission::always);
    // The message and, from the second on, which segment was given up for it.
    ASSERT_TRUE(testing::wait_until([&] {
      return session->statistics().sent == 1 + 2 * i && b.session(a.record())->statistics().handled == 1 + 2 * i;
    })) << i;
    EXPECT_EQ(session->statistics().segment_bytes, static_cast<size_t>(size));
    b.handler->forget();
    ASSERT_TRUE(testing::wait_until([&] { return session->statistics().segments_lent == 0; }));
  }
  EXPECT_EQ(session->statistics().links, 1U);
}

}  // namespace
}  // namespace gradwire::net
