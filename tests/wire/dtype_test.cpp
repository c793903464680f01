#include "gradwire/wire/dtype.h"

#include <map>
#include <string>

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "gradwire/base/error.h"
#include "gradwire/wire/tensor.h"

#include "tests/support/thrown.h"

namespace gradwire::wire {
namespace {

using ::testing::HasSubstr;

// As docs/protocol-values.md has them. They never change, so this list is only ever extended.
const std::map<std::string, int> documented = {
    {"Byte", 0},
    {"Char", 1},
    {"Short", 2},
    {"Int", 3},
    {"Long", 4},
    {"Half", 5},
    {"Float", 6},
    {"Double", 7},
    {"ComplexHalf", 8},
    {"ComplexFloat", 9},
    {"ComplexDouble", 10},
    {"Bool", 11},
    {"BFloat16", 15},
    {"Bits1x8", 18},
    {"Bits2x4", 19},
    {"Bits4x2", 20},
    {"Bits8", 21},
    {"Bits16", 22},
    {"Float8_e5m2", 23},
    {"Float8_e4m3fn", 24},
    {"Float8_e5m2fnuz", 25},
    {"Float8_e4m3fnuz", 26},
    {"UInt16", 27},
    {"UInt32", 28},
    {"UInt64", 29},
    {"UInt1", 30},
    {"UInt2", 31},
    {"UInt3", 32},
    {"UInt4", 33},
    {"UInt5", 34},
    {"UInt6", 35},
    {"UInt7", 36},
    {"Int1", 37},
    {"Int2", 38},
    {"Int3", 39},
    {"Int4", 40},
    {"Int5", 41},
    {"Int6", 42},
    {"Int7", 43},
    {"Float8_e8m0fnu", 44},
    {"Float4_e2m1fn_x2", 45},
    {"BComplex32", 46},
    {"NoTorchHasThis", 255},
};

// What torch 2.11, the oldest that is supported, has.
bool is_in_every_torch(int number) { return number <= 45; }

TEST(Dtype, HasANumberOfTheWiresOwn) {
  int seen = 0;
  for (int number = 0; number < 256; ++number) {
    const Dtype* dtype = dtype_with_number(static_cast<uint8_t>(number));
    if (dtype == nullptr) {
      continue;
    }
    ++seen;
    EXPECT_EQ(dtype->number, number);
    ASSERT_TRUE(documented.contains(std::string(dtype->name))) << dtype->name;
    EXPECT_EQ(documented.at(std::string(dtype->name)), number) << dtype->name;
  }
  EXPECT_EQ(seen, static_cast<int>(documented.size()));
}

TEST(Dtype, OfThisTorchIsFoundByItsName) {
  for (const auto& [name, number] : documented) {
    const Dtype& dtype = *dtype_with_number(static_cast<uint8_t>(number));
    const c10::ScalarType here = in_this_torch(dtype);
    if (here == c10::ScalarType::Undefined) {
      EXPECT_FALSE(is_in_every_torch(number)) << name;
      continue;
    }
    EXPECT_EQ(c10::toString(here), name);
    EXPECT_EQ(c10::elementSize(here), dtype.item_size) << name;
    EXPECT_EQ(dtype_of(here), &dtype) << name;
  }
  EXPECT_EQ(in_this_torch(*dtype_with_number(6)), at::kFloat);
  EXPECT_EQ(in_this_torch(dtype_of_no_torch), c10::ScalarType::Undefined);
}

// A dtype that a newer torch adds is refused by its sender until the table has it.
TEST(Dtype, ThatTheTableDoesNotHaveDoesNotTravel) {
  for (int i = 0; i < static_cast<int>(c10::ScalarType::Undefined); ++i) {
    const auto dtype = static_cast<c10::ScalarType>(i);
    EXPECT_EQ(dtype_of(dtype) != nullptr, documented.contains(c10::toString(dtype))) << dtype;
  }
  for (c10::ScalarType dtype : {c10::kQInt8, c10::kQUInt4x2, c10::ScalarType::Undefined, c10::ScalarType(-1)}) {
    EXPECT_EQ(dtype_of(dtype), nullptr) << dtype;
  }
}

std::string foreign_description(const at::Tensor& of_bytes) {
  ByteWriter writer;
  encode(writer, wire::flatten(of_bytes).description);
  std::string bytes = writer.take();
  bytes[1] = static_cast<char>(dtype_of_no_torch.number);
  return bytes;
}

TEST(Dtype, OfAnotherTorchIsReadAndRefusedByItsName) {
  const at::Tensor matrix = at::eye(3, at::kByte);
  for (const at::Tensor& tensor : {matrix, matrix.to_sparse(), matrix.to_sparse_csr(), at::empty({0}, at::kByte)}) {
    const std::string bytes = foreign_description(tensor);
    ByteReader reader(bytes);
    TensorDescription description = decode_description(reader);
    EXPECT_EQ(description.dtype, c10::ScalarType::Undefined);
    ASSERT_NE(description.foreign_dtype, nullptr);
    EXPECT_EQ(description.foreign_dtype->name, "NoTorchHasThis");

    // Its bytes are those of the dtype that it was made of, so a link takes them as it takes any.
    TensorDescription known = wire::flatten(tensor).description;
    ASSERT_EQ(description.parts.size(), known.parts.size());
    std::vector<c10::DataPtr> memory;
    for (size_t i = 0; i < known.parts.size(); ++i) {
      EXPECT_EQ(description.parts[i].byte_count, known.parts[i].byte_count);
      EXPECT_EQ(description.parts[i].sizes, known.parts[i].sizes);
      memory.push_back(c10::GetAllocator(c10::kCPU)->allocate(known.parts[i].byte_count));
    }
    EXPECT_THAT(testing::thrown<MalformedError>([&] { (void)assemble(description, std::move(memory)); }),
                HasSubstr("NoTorchHasThis"));

    ByteWriter again;
    encode(again, description);
    EXPECT_EQ(again.take(), bytes);
  }
}

// Only torch says which of its dtypes can require grad.
TEST(Dtype, OfAnotherTorchMayRequireGrad) {
  std::string bytes = foreign_description(at::ones({2}, at::kByte));
  bytes[2] = 1;
  ByteReader reader(bytes);
  EXPECT_TRUE(decode_description(reader).requires_grad);
}

}  // namespace
}  // namespace gradwire::wire
