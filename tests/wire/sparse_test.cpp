#include <functional>

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "gradwire/wire/tensor.h"

#include "tests/support/thrown.h"
#include "tests/wire/round_trip.h"

namespace gradwire::wire {
namespace {

using ::testing::HasSubstr;

void expect_same_coordinates(const at::Tensor& tensor, const at::Tensor& arrived) {
  EXPECT_EQ(arrived.layout(), at::kSparse);
  EXPECT_EQ(arrived.sizes(), tensor.sizes());
  EXPECT_EQ(arrived.sparse_dim(), tensor.sparse_dim());
  EXPECT_EQ(arrived.dense_dim(), tensor.dense_dim());
  EXPECT_EQ(arrived.is_coalesced(), tensor.is_coalesced());
  EXPECT_TRUE(at::equal(arrived._indices(), tensor._indices()));
  EXPECT_TRUE(at::equal(arrived._values(), tensor._values()));
}

void expect_same_rows(const at::Tensor& tensor, const at::Tensor& arrived) {
  EXPECT_EQ(arrived.layout(), at::kSparseCsr);
  EXPECT_EQ(arrived.sizes(), tensor.sizes());
  EXPECT_EQ(arrived.dense_dim(), tensor.dense_dim());
  EXPECT_EQ(arrived.crow_indices().scalar_type(), tensor.crow_indices().scalar_type());
  EXPECT_TRUE(at::equal(arrived.crow_indices(), tensor.crow_indices()));
  EXPECT_TRUE(at::equal(arrived.col_indices(), tensor.col_indices()));
  EXPECT_TRUE(at::equal(arrived.values(), tensor.values()));
}

at::Tensor coordinates(const std::vector<int64_t>& flat, int64_t dimensions) {
  return at::tensor(flat, at::kLong).reshape({dimensions, -1});
}

TEST(SparseTensor, KeepsIndicesValuesAndWhetherItIsCoalesced) {
  at::Tensor doubled = at::sparse_coo_tensor(coordinates({0, 2, 2, 1, 0, 0}, 2), at::randn({3}), {3, 4});
  at::Tensor hybrid = at::sparse_coo_tensor(coordinates({4, 1}, 1), at::randn({2, 3, 2}), {5, 3, 2});
  for (const auto& tensor : {doubled, doubled.coalesce(), hybrid, hybrid.coalesce(), at::zeros({3, 4}).to_sparse(),
                             at::sparse_coo_tensor({0, 3}, at::kFloat), at::randn({3, 4, 5}).to_sparse(),
                             at::randn({2, 3}, at::kComplexDouble).to_sparse(), at::ones({2, 2}, at::kBool).to_sparse(),
                             at::scalar_tensor(3).to_sparse(), doubled.t()}) {
    expect_same_coordinates(tensor, round_trip(tensor));
  }
}

TEST(SparseTensor, OfCompressedRowsKeepsItsComponents) {
  at::Tensor matrix = at::tensor(std::vector<float>{0, 1, 2, 0, 0, 3}).reshape({2, 3});
  at::Tensor narrow = at::sparse_csr_tensor(at::tensor({0, 1, 2}, at::kInt), at::tensor({2, 0}, at::kInt),
                                            at::randn({2}), {2, 3}, at::TensorOptions());
  for (const auto& tensor :
       {matrix.to_sparse_csr(), at::zeros({3, 3}).to_sparse_csr(), at::zeros({0, 3}).to_sparse_csr(),
        at::stack({matrix, matrix}).to_sparse_csr(), at::ones({2, 3, 4}).to_sparse_csr(1), narrow}) {
    expect_same_rows(tensor, round_trip(tensor));
  }
}

TEST(SparseTensor, ThatRequiresGradSaysSo) {
  at::Tensor leaf = at::randn({3, 4}).requires_grad_();
  for (const auto& tensor : {leaf.to_sparse(), leaf.to_sparse_csr()}) {
    FlatTensor flat = wire::flatten(tensor);
    EXPECT_TRUE(flat.description.requires_grad);
    for (const auto& part : flat.parts) {
      EXPECT_FALSE(part.requires_grad());
    }
    EXPECT_FALSE(round_trip(tensor).requires_grad());
  }
}

TEST(SparseTensor, ArrivesReadyForTorchsKernels) {
  at::Tensor tensor = at::randn({6, 6}).mul(at::randn({6, 6}).gt(0)).to_sparse();
  at::Tensor right = at::randn({6, 2});
  EXPECT_TRUE(at::allclose(at::mm(round_trip(tensor), right), at::mm(tensor, right)));
  at::Tensor rows = tensor.to_sparse_csr();
  EXPECT_TRUE(at::allclose(at::mm(round_trip(rows), right), at::mm(rows, right)));
}

// What becomes of `tensor` if its part is changed on the way.
template <class Index>
at::Tensor tampered(const at::Tensor& tensor, size_t part, const std::function<void(Index*)>& change) {
  FlatTensor flat = wire::flatten(tensor);
  auto memory = memory_for(flat.description);
  for (size_t i = 0; i < memory.size(); ++i) {
    copy_part(flat.parts[i], memory[i].get());
  }
  change(static_cast<Index*>(memory[part].get()));
  return assemble(flat.description, std::move(memory));
}

TEST(SparseTensor, C21_WithAnIndexOutsideIsRefused) {
  at::Tensor tensor = at::sparse_coo_tensor(coordinates({0, 2, 2, 1, 0, 3}, 2), at::randn({3}), {3, 4});
  for (int64_t outside : {int64_t{-1}, int64_t{4}, std::numeric_limits<int64_t>::min(), int64_t{1} << 62}) {
    EXPECT_THAT(testing::thrown<MalformedError>(
                    [&] { tampered<int64_t>(tensor, 0, [&](int64_t* index) { index[4] = outside; }); }),
                HasSubstr("in dimension 1 of size 4"));
  }
  EXPECT_THAT(
      testing::thrown<MalformedError>([&] { tampered<int64_t>(tensor, 0, [&](int64_t* index) { index[2] = 3; }); }),
      HasSubstr("index 3 in dimension 0 of size 3"));
}

TEST(SparseTensor, IsCalledCoalescedOnlyIfItIs) {
  at::Tensor tensor = at::eye(4).to_sparse();
  ASSERT_TRUE(tensor.is_coalesced());
  at::Tensor doubled = tampered<int64_t>(tensor, 0, [](int64_t* index) { index[1] = index[5] = 0; });
  EXPECT_FALSE(doubled.is_coalesced());
  EXPECT_EQ(doubled.to_dense()[0][0].item<float>(), 2);
  EXPECT_FALSE(tampered<int64_t>(tensor, 0, [](int64_t* index) { std::swap(index[0], index[1]); }).is_coalesced());
}

TEST(SparseTensor, C21_OfCompressedRowsWithBrokenIndicesIsRefused) {
  for (auto dtype : {at::kLong, at::kInt}) {
    at::Tensor full = at::ones({3, 4}).to_sparse_csr();
    at::Tensor tensor = at::sparse_csr_tensor(full.crow_indices().to(dtype), full.col_indices().to(dtype),
                                              full.values(), {3, 4}, at::TensorOptions());
    auto text = [&](size_t part, int64_t position, int64_t value) {
      return testing::thrown<MalformedError>([&] {
        if (dtype == at::kLong) {
          tampered<int64_t>(tensor, part, [&](int64_t* index) { index[position] = value; });
        } else {
          tampered<int32_t>(tensor, part, [&](int32_t* index) { index[position] = static_cast<int32_t>(value); });
        }
      });
    };
    EXPECT_THAT(text(0, 0, 1), HasSubstr("row starts go from 1 to 12"));
    EXPECT_THAT(text(0, 3, 11), HasSubstr("row starts go from 0 to 11"));
    EXPECT_THAT(text(0, 1, -4), HasSubstr("row 0 goes from 0 to -4"));
    EXPECT_THAT(text(0, 1, 1000000), HasSubstr("row 0 goes from 0 to 1000000"));
    EXPECT_THAT(text(0, 2, 3), HasSubstr("row 1 goes from 4 to 3"));
    EXPECT_THAT(text(1, 5, -1), HasSubstr("column -1 after 0 in row 1"));
    EXPECT_THAT(text(1, 7, 4), HasSubstr("column 4 after 2 in row 1 of 4 columns"));
    EXPECT_THAT(text(1, 5, 0), HasSubstr("column 0 after 0"));
  }
}

TEST(SparseTensor, C21_OfCompressedRowsIsCheckedInEveryBatch) {
  const at::Tensor one = at::ones({3, 4});
  for (const auto& batches : {at::stack({one, one}), at::stack({one, one, one})}) {
    const at::Tensor tensor = batches.to_sparse_csr();
    const int64_t count = tensor.size(0);
    for (int64_t batch = 0; batch < count; ++batch) {
      SCOPED_TRACE(fmt::format("batch {} of {}", batch, count));
      const int64_t first_start = batch * 4;
      const int64_t first_column = batch * 12;
      EXPECT_THAT(testing::thrown<MalformedError>(
                      [&] { tampered<int64_t>(tensor, 0, [&](int64_t* start) { start[first_start] = 1; }); }),
                  HasSubstr("row starts go from 1 to 12"));
      EXPECT_THAT(testing::thrown<MalformedError>(
                      [&] { tampered<int64_t>(tensor, 1, [&](int64_t* column) { column[first_column + 11] = 4; }); }),
                  HasSubstr("column 4 after 2 in row 2 of 4 columns"));
      EXPECT_THAT(testing::thrown<MalformedError>(
                      [&] { tampered<int64_t>(tensor, 1, [&](int64_t* column) { column[first_column] = -1; }); }),
                  HasSubstr("column -1 after -1 in row 0"));
    }
  }
}

}  // namespace
}  // namespace gradwire::wire
