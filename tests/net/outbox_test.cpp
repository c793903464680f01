// What is kept for the next link, where segments are concerned. For the rest see session_numbers_test.cpp.
#include "gradwire/net/outbox.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

namespace gradwire::net {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(Outbox, WhereSegmentsCannotBePassedWhatWaitsForRoomStreamsToo) {
  const auto budget = std::make_shared<SegmentBudget>(size_t{1} << 30U);
  SegmentPool pool(budget);
  Blocks blocks(nullptr, std::make_shared<SegmentBudget>(0));
  Outbox outbox(1000);
  std::vector<std::shared_ptr<Outgoing>> messages;
  for (int i = 0; i < 2; ++i) {
    messages.push_back(std::make_shared<Outgoing>());
    encode_message(
        *messages.back(),
        {.type = MessageType{16}, .head = std::string(2000, 'h'), .payload = {.tensors = {at::ones({100000})}}}, &pool,
        blocks);
    ASSERT_THAT(messages.back()->loans, Not(IsEmpty()));
    outbox.push(messages.back(), Admission::waits_for_room);
  }
  ASSERT_EQ(outbox.admitted(), 1U);
  ASSERT_EQ(outbox.impossible({}), "");
  outbox.resume({}, &pool);
  for (const auto& message : messages) {
    EXPECT_THAT(message->loans, IsEmpty());
    EXPECT_THAT(message->bulks, SizeIs(1));
  }
  EXPECT_EQ(pool.lent_count(), 0U);
}

}  // namespace
}  // namespace gradwire::net
