#include "gradwire/wire/bytes.h"

#include <limits>

#include <gmock/gmock.h>

#include "tests/support/thrown.h"

namespace gradwire::wire {
namespace {

using ::testing::HasSubstr;

enum class Colour : uint16_t { red = 1, green = 500 };

TEST(Bytes, AreReadAsTheyWereWritten) {
  ByteWriter writer;
  writer.put(true);
  writer.put(int8_t{-1});
  writer.put(uint16_t{65535});
  writer.put(std::numeric_limits<int64_t>::min());
  writer.put(1.5F);
  writer.put(-0.0);
  writer.put(Colour::green);
  writer.put_string("a\0b");
  writer.put_bytes("raw");
  ByteReader reader(writer.bytes());
  EXPECT_TRUE(reader.take<bool>());
  EXPECT_EQ(reader.take<int8_t>(), -1);
  EXPECT_EQ(reader.take<uint16_t>(), 65535);
  EXPECT_EQ(reader.take<int64_t>(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(reader.take<float>(), 1.5F);
  EXPECT_TRUE(std::signbit(reader.take<double>()));
  EXPECT_EQ(reader.take<Colour>(), Colour::green);
  EXPECT_EQ(reader.take_string(), "a\0b");
  EXPECT_EQ(reader.take_bytes(3), "raw");
  EXPECT_EQ(reader.remaining(), 0);
  EXPECT_EQ(reader.position(), writer.size());
  reader.expect_end("everything");
}

TEST(Bytes, AreLittleEndianAndPacked) {
  ByteWriter writer;
  writer.put(uint8_t{1});
  writer.put(uint32_t{0x05040302});
  EXPECT_EQ(writer.bytes(), "\1\2\3\4\5");
}

TEST(Bytes, AreGivenAwayOnce) {
  ByteWriter writer;
  writer.put_bytes("abc");
  EXPECT_EQ(writer.take(), "abc");
  EXPECT_EQ(writer.size(), 0);
}

TEST(Bytes, SayWhatIsMissingAndWhere) {
  ByteReader reader("\1\2\3\4\5\6");
  reader.take<uint32_t>();
  EXPECT_THAT(testing::thrown<MalformedError>([&] { reader.take<uint32_t>(); }),
              HasSubstr("4 bytes are wanted, 2 are left, at byte 4 of 6"));
  // Nothing was taken by the failed attempt.
  EXPECT_EQ(reader.take<uint16_t>(), 0x0605);
}

TEST(Bytes, SayWhatIsLeftOver) {
  ByteReader reader("abc");
  EXPECT_THAT(testing::thrown<MalformedError>([&] { reader.expect_end("a greeting"); }),
              HasSubstr("3 bytes are left over after a greeting"));
}

TEST(Bytes, RefuseABoolThatIsNeitherTrueNorFalse) {
  ByteReader reader("\2");
  EXPECT_THAT(testing::thrown<MalformedError>([&] { reader.take<bool>(); }), HasSubstr("a bool is 0 or 1, not 2"));
}

TEST(Bytes, C21_RefuseALengthThatIsNotThere) {
  for (uint64_t length : {uint64_t{4}, uint64_t{1} << 40, std::numeric_limits<uint64_t>::max()}) {
    ByteWriter writer;
    writer.put(length);
    writer.put_bytes("abc");
    EXPECT_THROW(ByteReader(writer.bytes()).take_string(), MalformedError);
    EXPECT_THROW(ByteReader(writer.bytes()).take_count(1), MalformedError);
    EXPECT_THROW(ByteReader(writer.bytes()).take_count(8), MalformedError);
  }
  ByteWriter writer;
  writer.put(uint64_t{2});
  writer.put_bytes("12345678");
  EXPECT_EQ(ByteReader(writer.bytes()).take_count(4), 2);
  EXPECT_THROW(ByteReader(writer.bytes()).take_count(5), MalformedError);
}

}  // namespace
}  // namespace gradwire::wire
