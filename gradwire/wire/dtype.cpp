#include "gradwire/wire/dtype.h"

#include <algorithm>
#include <array>

namespace gradwire::wire {
namespace {

constexpr auto table = std::to_array<Dtype>({
    {0, 1, "Byte"},
    {1, 1, "Char"},
    {2, 2, "Short"},
    {3, 4, "Int"},
    {4, 8, "Long"},
    {5, 2, "Half"},
    {6, 4, "Float"},
    {7, 8, "Double"},
    {8, 4, "ComplexHalf"},
    {9, 8, "ComplexFloat"},
    {10, 16, "ComplexDouble"},
    {11, 1, "Bool"},
    // 12 to 14, 16 and 17 are the quantized ones, which do not travel.
    {15, 2, "BFloat16"},
    {18, 1, "Bits1x8"},
    {19, 1, "Bits2x4"},
    {20, 1, "Bits4x2"},
    {21, 1, "Bits8"},
    {22, 2, "Bits16"},
    {23, 1, "Float8_e5m2"},
    {24, 1, "Float8_e4m3fn"},
    {25, 1, "Float8_e5m2fnuz"},
    {26, 1, "Float8_e4m3fnuz"},
    {27, 2, "UInt16"},
    {28, 4, "UInt32"},
    {29, 8, "UInt64"},
    {30, 1, "UInt1"},
    {31, 1, "UInt2"},
    {32, 1, "UInt3"},
    {33, 1, "UInt4"},
    {34, 1, "UInt5"},
    {35, 1, "UInt6"},
    {36, 1, "UInt7"},
    {37, 1, "Int1"},
    {38, 1, "Int2"},
    {39, 1, "Int3"},
    {40, 1, "Int4"},
    {41, 1, "Int5"},
    {42, 1, "Int6"},
    {43, 1, "Int7"},
    {44, 1, "Float8_e8m0fnu"},
    {45, 1, "Float4_e2m1fn_x2"},
    {46, 4, "BComplex32"},  // since torch 2.15
    dtype_of_no_torch,
});

// Which row of the table is which dtype of this process's torch.
struct Known {
  std::array<const Dtype*, 256> by_number{};
  std::array<const Dtype*, 256> by_torch{};
  std::array<c10::ScalarType, 256> in_torch{};

  Known() {
    in_torch.fill(c10::ScalarType::Undefined);
    for (const Dtype& dtype : table) {
      by_number[dtype.number] = &dtype;
    }
    for (int i = 0; i < static_cast<int>(c10::ScalarType::Undefined); ++i) {
      const auto torch_dtype = static_cast<c10::ScalarType>(i);
      const auto* found = std::ranges::find(table, std::string_view(c10::toString(torch_dtype)), &Dtype::name);
      if (found != table.end()) {
        by_torch[i] = found;
        in_torch[found->number] = torch_dtype;
      }
    }
  }
};

const Known& known() {
  static const Known once;
  return once;
}

}  // namespace

const Dtype* dtype_with_number(uint8_t number) { return known().by_number[number]; }

const Dtype* dtype_of(c10::ScalarType dtype) { return known().by_torch[static_cast<uint8_t>(dtype)]; }

c10::ScalarType in_this_torch(const Dtype& dtype) { return known().in_torch[dtype.number]; }

}  // namespace gradwire::wire
