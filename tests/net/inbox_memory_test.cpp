// What a peer may make a worker keep for messages that are announced and not complete.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include <gmock/gmock.h>

#include "gradwire/net/inbox.h"
#include "gradwire/net/outgoing.h"
#include "gradwire/testing/simulated_loop.h"

#include "tests/support/memory.h"

namespace gradwire::net {
namespace {

using testing::process_memory;

constexpr size_t mebibyte = size_t{1} << 20U;

// The payload of a message with tensors of bytes of these sizes, each with this placement. Its own bytes are in the
// frame, and there are none.
std::string announcement(size_t count, int64_t size, Placement placement, const std::string& head = "") {
  wire::ByteWriter payload;
  payload.put(uint16_t{16});
  payload.put(uint32_t{0});  // aboard
  payload.put(static_cast<uint32_t>(head.size()));
  payload.put_bytes(head);
  payload.put(uint64_t{0});  // the bytes
  payload.put(static_cast<uint32_t>(count));
  wire::TensorDescription description;
  description.defined = true;
  description.dtype = c10::ScalarType::Byte;
  description.sizes = {size};
  for (size_t i = 0; i < count; ++i) wire::encode(payload, description);
  const auto place = [&](Placement where) {
    payload.put(where);
    payload.put(uint64_t{0});
  };
  place(Placement::in_frame);
  for (size_t i = 0; i < count; ++i) place(placement);
  if (placement == Placement::in_frame) payload.put_bytes(std::string(count * static_cast<size_t>(size), 'x'));
  return payload.take();
}

// A message that waits for the one byte of this part.
struct Waiting {
  std::string payload;
  uint32_t part = 0;
};

// With so many tensors of this size in the frame; its own byte streams.
Waiting waiting_for_one_byte(size_t count, int64_t size) {
  Waiting waiting{announcement(count, size, Placement::in_frame)};
  const uint64_t one = 1;
  std::memcpy(waiting.payload.data() + sizeof(uint16_t) + 2 * sizeof(uint32_t), &one, sizeof one);
  const size_t placements_at =
      waiting.payload.size() - count * static_cast<size_t>(size) - (count + 1) * placement_size;
  waiting.payload[placements_at] = static_cast<char>(Placement::stream);
  return waiting;
}

struct Receiver {
  explicit Receiver(InboxLimits limits = {}, std::shared_ptr<ArrivalBudget> process = ArrivalBudget::of_process())
      : inbox(limits, frees, blocks, std::move(process)) {
    frees->when_first([] {});
  }
  const std::shared_ptr<FreeList> frees = std::make_shared<FreeList>();
  const std::shared_ptr<SegmentBudget> budget = std::make_shared<SegmentBudget>(size_t{4} << 30U);
  const std::shared_ptr<Blocks> blocks = std::make_shared<Blocks>(std::make_shared<testing::SimulatedLoop>(1), budget);
  Inbox inbox;
};

TEST(InboxMemory, W6_BecomesResidentOnlyAsBytesCome) {
  constexpr int64_t announced = int64_t{2} << 30U;
  constexpr size_t chunk = mebibyte / 4;
  constexpr size_t slack = 8 * mebibyte;
  Receiver receiver;
  const std::string payload = announcement(1, announced, Placement::stream);
  EXPECT_LT(payload.size(), 200U);
  const size_t before = process_memory().resident;
  Delivery delivery = receiver.inbox.open(1, payload);
  ASSERT_NE(delivery.arrival, nullptr) << delivery.refusal;
  EXPECT_LT(process_memory().resident, before + slack) << "nothing has come";
  const auto bring = [&](size_t from, size_t to) {
    for (size_t at = from; at < to; at += chunk) {
      std::memset(receiver.inbox.destination(1, {.part = 1, .offset = at}, chunk), 'x', chunk);
      EXPECT_FALSE(receiver.inbox.chunk_arrived(1, {.part = 1, .offset = at}, chunk));
    }
  };
  bring(0, mebibyte);
  EXPECT_LT(process_memory().resident, before + 2 * mebibyte + slack);
  bring(mebibyte, 64 * mebibyte);
  EXPECT_GE(process_memory().resident, before + 64 * mebibyte);
  EXPECT_LT(process_memory().resident, before + 64 * mebibyte + slack);
  // What is lost must not look as if it were resident to whoever gets the block next.
  receiver.inbox.lose(PeerGoneError("gone", "a", GoneReason::died));
}

TEST(InboxMemory, W6_AllSessionsOfAProcessShareOneBudget) {
  constexpr size_t bound = 10 * mebibyte;
  const auto budget = std::make_shared<ArrivalBudget>(bound);
  auto first = std::make_unique<Receiver>(InboxLimits(), budget);
  Receiver second({}, budget);
  const std::string large = announcement(1, 6 * mebibyte, Placement::stream);
  const std::string beyond_all = announcement(1, 20 * mebibyte, Placement::stream);
  const auto open = [&](Receiver& receiver, uint64_t number, const std::string& payload) {
    return receiver.inbox.open(number, payload);
  };
  EXPECT_EQ(open(*first, 1, large).refusal, "");
  const Delivery refused = open(second, 1, large);
  EXPECT_EQ(refused.arrival, nullptr);
  EXPECT_THAT(refused.refusal, ::testing::HasSubstr(std::to_string(bound)));
  EXPECT_EQ(second.inbox.destination(1, {.part = 1}, 100), nullptr) << "its bytes are dropped";
  EXPECT_TRUE(second.inbox.chunk_arrived(1, {.part = 1}, 100)) << "and its sender may forget it";
  EXPECT_EQ(open(second, 2, announcement(1, mebibyte, Placement::stream)).refusal, "");
  second.inbox.lose(PeerGoneError("gone", "b", GoneReason::died));
  EXPECT_LT(budget->taken(), 7 * mebibyte) << "what is lost does not count";
  first.reset();
  EXPECT_EQ(budget->taken(), 0U);
  const Delivery alone = open(second, 3, beyond_all);
  EXPECT_EQ(alone.refusal, "") << "one message at a time may be larger than the budget";
  EXPECT_NE(open(second, 4, beyond_all).refusal, "");
  EXPECT_EQ(open(second, 5, announcement(1, 1, Placement::stream)).refusal, "") << "others are taken meanwhile";
  ASSERT_NE(second.inbox.destination(5, {.part = 1}, 1), nullptr);
  EXPECT_TRUE(second.inbox.chunk_arrived(5, {.part = 1}, 1));
  ASSERT_NE(second.inbox.destination(3, {.part = 1}, 20 * mebibyte), nullptr);
  EXPECT_TRUE(second.inbox.chunk_arrived(3, {.part = 1}, 20 * mebibyte));
  EXPECT_TRUE(alone.arrival->settled());
  EXPECT_EQ(budget->taken(), 0U);
}

TEST(InboxMemory, W6_ASegmentThatIsAllHolesStaysSo) {
  constexpr size_t size = 256 * mebibyte;
  const int file = memfd_create("holes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, size), 0);
  ASSERT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  const Descriptor kept(dup(file));
  std::string why;
  const std::shared_ptr<Segment> segment = Segment::open(1, size, Descriptor(file), why);
  ASSERT_NE(segment, nullptr) << why;
  struct stat status{};
  ASSERT_EQ(fstat(kept.get(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0) << "a sender pays for the memory of what it shares";
}

TEST(InboxMemory, W7_AllThatAMessageKeepsWhileItWaitsIsCounted) {
  constexpr size_t bound = 32 * mebibyte;
  for (const Waiting& waiting : {
           waiting_for_one_byte(20'000, 0),
           waiting_for_one_byte(2'000, 30),
           waiting_for_one_byte(0, 0),
           Waiting{announcement(1, 1, Placement::stream, std::string(mebibyte, 'x')), 1},
       }) {
    const size_t size = waiting.payload.size();
    Receiver receiver({.unfinished_bytes = bound});
    std::vector<Delivery> kept;
    const size_t most = 2 * bound / size;
    kept.reserve(most + 1);
    const size_t before = mallinfo2().uordblks;
    do kept.push_back(receiver.inbox.open(kept.size() + 1, waiting.payload));
    while (kept.back().refusal.empty() && kept.size() <= most);
    ASSERT_THAT(kept.back().refusal, ::testing::HasSubstr(std::to_string(bound))) << "messages of " << size;
    kept.pop_back();
    // Where a sanitizer allocates, this counts nothing.
    EXPECT_LT(mallinfo2().uordblks, before + bound + bound / 8) << kept.size() << " messages of " << size;
    EXPECT_GT(kept.size() * size * 64, bound) << "what comes in is not counted for far more than it takes";
    for (uint64_t number = 1; number <= kept.size(); ++number) {
      ASSERT_NE(receiver.inbox.destination(number, {.part = waiting.part}, 1), nullptr);
      ASSERT_TRUE(receiver.inbox.chunk_arrived(number, {.part = waiting.part}, 1));
      ASSERT_TRUE(kept[number - 1].arrival->settled());
    }
    EXPECT_EQ(receiver.inbox.open(kept.size() + 1, waiting.payload).refusal, "") << "what is complete does not count";
  }
}

}  // namespace
}  // namespace gradwire::net
