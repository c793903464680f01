#include "gradwire/net/segment.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <gmock/gmock.h>

namespace gradwire::net {
namespace {

using ::testing::HasSubstr;

TEST(Segment, ThatCouldShrinkIsNotMapped) {
  Descriptor plain(memfd_create("plain", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(plain.get(), 65536), 0);
  std::string why;
  EXPECT_EQ(Segment::open(1, 65536, std::move(plain), why), nullptr);
  EXPECT_THAT(why, HasSubstr("sealed against shrinking"));
}

TEST(Segment, OfAnotherSizeThanAnnouncedIsNotMapped) {
  auto segment = Segment::make(1, 65536);
  std::string why;
  EXPECT_EQ(Segment::open(1, 131072, Descriptor(dup(segment->descriptor())), why), nullptr);
  EXPECT_THAT(why, HasSubstr("has 65536 bytes, 131072 were announced"));
  EXPECT_NE(Segment::open(1, 65536, Descriptor(dup(segment->descriptor())), why), nullptr);
}

TEST(Segment, HoldsADescriptorOnlyWhereItCanBePassedOn) {
  auto segment = Segment::make(1, 65536);
  EXPECT_GE(segment->descriptor(), 0);
  std::string why;
  auto received = Segment::open(1, 65536, Descriptor(dup(segment->descriptor())), why);
  ASSERT_NE(received, nullptr);
  EXPECT_EQ(received->descriptor(), -1);
  segment->data()[100] = 'x';
  EXPECT_EQ(received->data()[100], 'x') << "it is the same memory";
  EXPECT_EQ(Segment::make(1, 65536, Sharing::none)->descriptor(), -1);
}

TEST(Segment, ThatIsNoMemoryFileIsNotMapped) {
  std::string why;
  EXPECT_EQ(Segment::open(1, 4096, Descriptor(open("/dev/zero", O_RDWR | O_CLOEXEC)), why), nullptr);
}

TEST(SegmentPool, LendsAgainWhatCameBackAndNothingElse) {
  SegmentPool pool(std::make_shared<SegmentBudget>(1U << 20U));
  auto first = pool.lend(100000);
  auto second = pool.lend(100000);
  ASSERT_NE(first, nullptr);
  EXPECT_NE(first->id(), second->id());
  EXPECT_TRUE(pool.take_back(first->id(), {}));
  EXPECT_FALSE(pool.take_back(first->id(), {})) << "twice";
  EXPECT_FALSE(pool.take_back(99, {})) << "never lent";
  EXPECT_EQ(pool.lend(100000)->id(), first->id());
}

TEST(SegmentPool, StaysWithinItsBudgetAndMakesRoomByGivingUpIdleOnes) {
  auto budget = std::make_shared<SegmentBudget>(1U << 20U);
  SegmentPool pool(budget);
  auto a = pool.lend(512 * 1024), b = pool.lend(512 * 1024);
  EXPECT_EQ(pool.lend(64 * 1024), nullptr) << "past the bound";
  pool.take_back(a->id(), {});
  EXPECT_NE(pool.lend(64 * 1024), nullptr);
  EXPECT_THAT(pool.retire_idle(Time::min()), ::testing::ElementsAre(a->id())) << "the peer is told to unmap it";
  SegmentPool other(budget);
  EXPECT_EQ(other.lend(512 * 1024), nullptr) << "the bound is the process's";
  pool.clear();
  EXPECT_NE(other.lend(512 * 1024), nullptr);
}

TEST(SegmentPool, S3_StaysWithinTheDescriptorsOfItsBudget) {
  auto budget = std::make_shared<SegmentBudget>(1U << 30U, 2);
  SegmentPool pool(budget);
  auto first = pool.lend(65536), second = pool.lend(65536);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(pool.lend(65536), nullptr);
  EXPECT_NE(SegmentPool(budget, Sharing::none).lend(65536), nullptr) << "it takes no descriptor";
  ASSERT_TRUE(pool.take_back(first->id(), Time{}));
  EXPECT_NE(pool.lend(1U << 20U), nullptr) << "the idle one made room";
  pool.clear();
  EXPECT_EQ(pool.lend(65536), nullptr) << "never again, once cleared";
  EXPECT_TRUE(budget->take(1U << 30U, 2)) << "and nothing is kept";
}

TEST(SegmentPool, GivesUpWhatLiesIdle) {
  SegmentPool pool(std::make_shared<SegmentBudget>(1U << 20U));
  auto a = pool.lend(1), b = pool.lend(1);
  const Time start{};
  pool.take_back(a->id(), start);
  pool.take_back(b->id(), start + std::chrono::seconds(5));
  EXPECT_THAT(pool.retire_idle(start + std::chrono::seconds(1)), ::testing::ElementsAre(a->id()));
  EXPECT_EQ(pool.bytes(), 65536U);
}

TEST(SegmentPool, RoundsSizesUpToFourClassesPerDoubling) {
  EXPECT_EQ(SegmentPool::size_class(1), 65536U);
  EXPECT_EQ(SegmentPool::size_class(65537), 81920U);
  EXPECT_EQ(SegmentPool::size_class(size_t{256} << 20U), size_t{256} << 20U);
  for (size_t size = 65536; size < 10000000; size += 9973) {
    EXPECT_GE(SegmentPool::size_class(size), size);
    EXPECT_LE(SegmentPool::size_class(size), size + size / 4 + 65536);
  }
}

}  // namespace
}  // namespace gradwire::net
