// What a receiver does not believe its peer about shared memory. For what a peer says in frames see
// session_bad_bytes_test.cpp.
#include "gradwire/net/inbox.h"

#include <cstring>

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "gradwire/net/outgoing.h"

#include "tests/support/memory.h"
#include "tests/support/segment_receiver.h"
#include "tests/support/thrown.h"

namespace gradwire::net {
namespace {

using ::testing::HasSubstr;

class InboxTest : public ::testing::Test, protected testing::SegmentReceiver {
 protected:
  const std::shared_ptr<SegmentBudget> budget = std::make_shared<SegmentBudget>(size_t{1} << 30U);
};

TEST_F(InboxTest, C21_DoesNotReadATensorBeyondTheEndOfItsSegment) {
  SegmentPool pool(budget);
  const at::Tensor tensor = at::ones({100000});
  Outgoing outgoing;
  encode_message(outgoing, {.type = MessageType{16}, .payload = {.tensors = {tensor}}}, &pool, *blocks);
  ASSERT_EQ(outgoing.loans.size(), 1U);
  const std::string_view payload = std::string_view(outgoing.frame).substr(frame_header_size);
  const uint64_t id = outgoing.loans[0].segment->id();
  ASSERT_TRUE(announce(*Segment::make(id, 65536)));
  EXPECT_THAT(testing::thrown<wire::MalformedError>([&] { (void)inbox.open(1, payload); }),
              HasSubstr("part of 400000 bytes in segment 1, which is unknown or smaller"));
  retire(id);
  ASSERT_TRUE(announce(*outgoing.loans[0].segment));
  EXPECT_TRUE(inbox.open(1, payload).arrival->take().tensors.at(0).equal(tensor)) << "in one that is large enough";
}

TEST_F(InboxTest, C21_MakesNoMemoryForBytesThatAreOnlyAnnounced) {
  wire::ByteWriter payload;
  payload.put(uint16_t{16});
  payload.put(uint32_t{0});         // aboard
  payload.put(uint32_t{0});         // the head
  payload.put(uint64_t{8} << 30U);  // the bytes
  payload.put(uint32_t{0});         // the tensors
  payload.put(Placement::stream);
  payload.put(uint64_t{0});
  const size_t before = testing::process_memory().resident;
  const Delivery delivery = inbox.open(1, payload.bytes());
  EXPECT_FALSE(delivery.arrival->settled());
  char* place = inbox.destination(1, {}, 100000);
  std::memset(place, 'x', 100000);
  EXPECT_FALSE(inbox.chunk_arrived(1, {}, 100000));
  std::memset(inbox.destination(1, {.offset = 100000}, 300000), 'y', 300000);
  EXPECT_LT(testing::process_memory().resident, before + (size_t{1} << 30U));
}

TEST_F(InboxTest, F3_BytesForWhichThereIsNoMemoryFailTheirMessageAlone) {
  constexpr uint64_t arrived = 100;
  constexpr uint64_t too_many = (uint64_t{1} << 63U) - 1;
  Inbox boundless{
      {.largest_message = SIZE_MAX, .unfinished_bytes = SIZE_MAX}, frees, blocks, ArrivalBudget::of_process()};
  wire::ByteWriter payload;
  payload.put(uint16_t{16});
  payload.put(uint32_t{0});         // aboard
  payload.put(uint32_t{0});         // the head
  payload.put(arrived + too_many);  // the bytes
  payload.put(uint32_t{0});         // the tensors
  payload.put(Placement::stream);
  payload.put(uint64_t{0});
  const Delivery delivery = boundless.open(1, payload.bytes());
  ASSERT_NE(boundless.destination(1, {}, arrived), nullptr);
  EXPECT_FALSE(boundless.chunk_arrived(1, {}, arrived));
  EXPECT_EQ(boundless.destination(1, {.offset = arrived}, too_many), nullptr) << "dropped";
  EXPECT_TRUE(delivery.arrival->settled()) << "whoever waits for it is told at once";
  EXPECT_THROW((void)delivery.arrival->take(), OverloadedError);
  EXPECT_TRUE(boundless.chunk_arrived(1, {.offset = arrived}, too_many)) << "the sender may forget it";
  EXPECT_THAT(boundless.unfinished(), ::testing::IsEmpty());
}

TEST_F(InboxTest, C21_ManyTensorsOfNothingAreRefusedBeforeTheyAreLookedAt) {
  Outgoing outgoing;
  Message message{.type = MessageType{16}, .payload = {.tensors = std::vector<at::Tensor>(most_tensors + 1)}};
  EXPECT_THAT(
      testing::thrown<InvalidArgumentError>([&] { encode_message(outgoing, std::move(message), nullptr, *blocks); }),
      HasSubstr("Send fewer at once"));
  wire::ByteWriter payload;
  payload.put(uint16_t{16});
  payload.put(uint32_t{0});
  payload.put(uint32_t{0});
  payload.put(uint64_t{0});
  payload.put(static_cast<uint32_t>(most_tensors + 1));
  payload.put_bytes(std::string(most_tensors * 4, '\0'));
  EXPECT_THAT(testing::thrown<wire::MalformedError>([&] { (void)inbox.open(1, payload.bytes()); }),
              HasSubstr("has too many"));
}

TEST_F(InboxTest, C21_TakesASegmentOnlyOnce) {
  ASSERT_TRUE(announce(*Segment::make(7, 65536)));
  EXPECT_THAT(testing::thrown<wire::MalformedError>([&] { announce(*Segment::make(7, 65536)); }),
              HasSubstr("segment 7 given twice"));
}

}  // namespace
}  // namespace gradwire::net
