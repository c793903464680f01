#include "gradwire/wire/tensor.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "gradwire/base/error.h"

#include "tests/support/thrown.h"
#include "tests/wire/round_trip.h"

namespace gradwire::wire {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Whether the same bits are in both, not a number that is equal: dtypes like float8 have no comparison, and NaN none.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor left = a.detach().resolve_conj().resolve_neg().contiguous();
  at::Tensor right = b.contiguous();
  return left.sizes() == right.sizes() && left.scalar_type() == right.scalar_type() &&
         (left.numel() == 0 || std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0);
}

std::vector<c10::ScalarType> dtypes_that_travel() {
  std::vector<c10::ScalarType> all;
  for (int i = 0; i < static_cast<int>(c10::ScalarType::Undefined); ++i) {
    auto dtype = static_cast<c10::ScalarType>(i);
    if (dtype_of(dtype) != nullptr) {
      all.push_back(dtype);
    }
  }
  return all;
}

// Random bits; of a bool, 0 and 1.
at::Tensor random_tensor(at::IntArrayRef sizes, c10::ScalarType dtype) {
  at::Tensor tensor = at::empty(sizes, dtype);
  auto bytes = static_cast<int64_t>(tensor.nbytes());
  at::Tensor bits = at::randint(0, dtype == at::kBool ? 2 : 256, {bytes}, at::kByte);
  if (bytes != 0) {
    std::memcpy(tensor.data_ptr(), bits.const_data_ptr(), bytes);
  }
  return tensor;
}

TEST(Tensor, OfEveryPlainDtypeTravels) {
  for (c10::ScalarType dtype : dtypes_that_travel()) {
    at::Tensor tensor = random_tensor({3, 4, 5}, dtype);
    at::Tensor arrived = round_trip(tensor);
    EXPECT_TRUE(same_bits(tensor, arrived)) << dtype;
    EXPECT_TRUE(arrived.is_contiguous());
    EXPECT_FALSE(arrived.requires_grad());
  }
}

TEST(Tensor, ThatIsUndefinedStaysUndefined) {
  FlatTensor flat = wire::flatten(at::Tensor());
  EXPECT_FALSE(flat.description.defined);
  EXPECT_TRUE(flat.description.parts.empty());
  EXPECT_FALSE(round_trip(at::Tensor()).defined());
}

TEST(Tensor, OfNoDimensionsOrNoElementsKeepsItsSizes) {
  for (const auto& tensor : {at::scalar_tensor(2.5), at::empty({0}), at::empty({3, 0, 5}), at::empty({0, 1}, at::kInt),
                             at::empty({1, 1, 1}), at::empty({4, 0}).t()}) {
    at::Tensor arrived = round_trip(tensor);
    EXPECT_EQ(arrived.sizes(), tensor.sizes());
    EXPECT_TRUE(same_bits(tensor, arrived));
  }
}

TEST(Tensor, ThatIsAViewArrivesAsTheElementsItShows) {
  at::Tensor base = at::randn({6, 7, 8});
  for (const auto& view :
       {base.permute({2, 0, 1}), base.slice(1, 1, 6, 2), base.select(2, 3), base.slice(0, 2, 3).expand({5, 7, 8}),
        base.select(0, 1).select(0, 1).expand({3, 4, 8}), base.flip({0, 2}), base.narrow(2, 1, 3).transpose(0, 2),
        base.diagonal(0, 0, 2), base.as_strided({4, 4}, {3, 2}, 5), base.unfold(1, 3, 1)}) {
    EXPECT_TRUE(same_bits(view, round_trip(view))) << view.sizes() << view.strides();
  }
}

TEST(Tensor, ThatIsMarkedConjugateNegativeOrZeroArrivesCarriedOut) {
  at::Tensor complex = at::randn({3, 4}, at::kComplexDouble);
  for (const auto& view : {complex.conj(), at::imag(complex.conj()), complex.conj().t(), at::_neg_view(complex)}) {
    at::Tensor arrived = round_trip(view);
    EXPECT_FALSE(arrived.is_conj());
    EXPECT_FALSE(arrived.is_neg());
    EXPECT_TRUE(at::equal(view.resolve_conj().resolve_neg(), arrived));
  }
  EXPECT_TRUE(same_bits(at::zeros({2, 2}), round_trip(at::_efficientzerotensor({2, 2}))));
}

TEST(Tensor, ThatRequiresGradSaysSoAndArrivesWithoutAGraph) {
  at::Tensor leaf = at::randn({3}).requires_grad_();
  for (const auto& tensor : {leaf, leaf.mul(2), leaf.mul(2).view({3, 1})}) {
    FlatTensor flat = wire::flatten(tensor);
    EXPECT_TRUE(flat.description.requires_grad);
    EXPECT_FALSE(flat.parts[0].requires_grad());
    EXPECT_FALSE(flat.parts[0].grad_fn());
    EXPECT_FALSE(round_trip(tensor).requires_grad());
    EXPECT_TRUE(same_bits(tensor, round_trip(tensor)));
  }
  EXPECT_FALSE(wire::flatten(leaf.detach()).description.requires_grad);
}

TEST(Tensor, ThatArrivedIsWrittenResizedAndViewedLikeAnyOther) {
  at::Tensor arrived = round_trip(at::ones({2, 3}));
  arrived.add_(1);
  arrived.resize_({100});
  EXPECT_EQ(arrived.sum().isnan().sizes().size(), 0);
  EXPECT_EQ(arrived.slice(0, 0, 6).sum().item<double>(), 12);
  EXPECT_EQ(arrived.view({10, 10}).size(1), 10);
  EXPECT_NO_THROW(round_trip(at::ones({2})).requires_grad_().mul(2).sum().backward());
}

TEST(Tensor, IsMadeOverTheMemoryGivenWithoutACopy) {
  bool released = false;
  std::vector<float> memory = {1, 2, 3, 4};
  TensorDescription description = wire::flatten(at::empty({2, 2})).description;
  {
    std::vector<c10::DataPtr> parts;
    parts.emplace_back(memory.data(), &released, [](void* flag) { *static_cast<bool*>(flag) = true; }, at::kCPU);
    at::Tensor tensor = assemble(description, std::move(parts));
    EXPECT_EQ(tensor.data_ptr(), memory.data());
    tensor.mul_(2);
    EXPECT_THAT(memory, ElementsAre(2, 4, 6, 8));
    EXPECT_FALSE(released);
  }
  EXPECT_TRUE(released);
}

TEST(Tensor, C13_ThatIsAViewSendsOnlyItsOwnElements) {
  at::Tensor base = at::randn({1000, 1000});
  FlatTensor flat = wire::flatten(base.select(1, 7).slice(0, 10, 20));
  ASSERT_EQ(flat.description.parts.size(), 1);
  ASSERT_EQ(flat.description.parts[0].byte_count, 10 * sizeof(float));
  std::vector<float> exactly(10 + 1, -1.0F);
  copy_part(flat.parts[0], exactly.data());
  EXPECT_EQ(exactly[0], base[10][7].item<float>());
  EXPECT_EQ(exactly[9], base[19][7].item<float>());
  EXPECT_EQ(exactly[10], -1.0F);
  EXPECT_LT(round_trip(base[3]).storage().nbytes(), 4001);
}

TEST(Tensor, WithRandomDtypeSizesAndViewsArrivesBitForBit) {
  for (int seed = 0; seed < 2000; ++seed) {
    at::manual_seed(seed);
    auto pick = [](int64_t end) { return at::randint(end, {}).item<int64_t>(); };
    auto dtypes = dtypes_that_travel();
    c10::ScalarType dtype = dtypes[pick(static_cast<int64_t>(dtypes.size()))];
    std::vector<int64_t> sizes;
    for (int64_t i = pick(5); i > 0; --i) {
      sizes.push_back(pick(10) == 0 ? pick(70) : pick(7));
    }
    at::Tensor tensor = random_tensor(sizes, dtype);
    for (int64_t step = pick(5); step > 0 && tensor.dim() > 0; --step) {
      int64_t dimension = pick(tensor.dim());
      int64_t size = tensor.size(dimension);
      switch (pick(6)) {
        case 0:
          tensor = tensor.transpose(dimension, pick(tensor.dim()));
          break;
        case 1:
          tensor = tensor.slice(dimension, pick(size + 1), size, 1 + pick(3));
          break;
        case 2:
          tensor = size > 0 ? tensor.select(dimension, pick(size)) : tensor;
          break;
        case 3:
          tensor = tensor.unsqueeze(dimension);
          break;
        case 4: {
          std::vector<int64_t> expanded = tensor.sizes().vec();
          expanded.insert(expanded.begin(), pick(4));
          tensor = tensor.expand(expanded);
          break;
        }
        default:
          tensor = size > 2 ? tensor.unfold(dimension, 2, 1) : tensor;
      }
    }
    at::Tensor arrived = round_trip(tensor);
    ASSERT_EQ(arrived.sizes(), tensor.sizes()) << "seed " << seed;
    // Torch has no contiguous() for some dtypes: compare as bytes of the same width.
    auto width = static_cast<int64_t>(c10::elementSize(dtype));
    auto as = width == 16  ? at::kComplexDouble
              : width == 8 ? at::kLong
              : width == 4 ? at::kInt
              : width == 2 ? at::kShort
                           : at::kByte;
    ASSERT_TRUE(same_bits(tensor.view(as), arrived.view(as))) << "seed " << seed << " " << dtype << tensor.sizes();
  }
}

TEST(Tensor, ThatCannotTravelIsRefusedInWords) {
  auto refusal = [](const at::Tensor& tensor) {
    return testing::thrown<InvalidArgumentError>([&] { (void)wire::flatten(tensor); });
  };
  EXPECT_THAT(refusal(at::empty({3}, at::kMeta)), HasSubstr("a meta tensor cannot be sent"));
  EXPECT_THAT(refusal(at::quantize_per_tensor(at::ones({3}), 0.1, 0, at::kQInt8)),
              AllOf(HasSubstr("a quantized tensor cannot be sent"), HasSubstr("dequantize")));
  EXPECT_THAT(refusal(at::_nested_tensor_from_tensor_list({at::ones({2}), at::ones({3})})),
              HasSubstr("a nested tensor"));
  EXPECT_THAT(refusal(at::ones({4, 4}).to_sparse_bsr({2, 2})), HasSubstr("to_sparse_csr"));
  EXPECT_THAT(refusal(at::ones({4, 4}).to_sparse_csc()), HasSubstr("to_sparse_csr"));
  if (at::globalContext().hasMKLDNN()) {
    EXPECT_THAT(refusal(at::ones({4, 4}).to_mkldnn()), HasSubstr("to_dense"));
  }
  EXPECT_THAT(refusal(at::_add_batch_dim(at::ones({4, 4}), 0, 1)), HasSubstr("wraps another one"));
  EXPECT_THAT(refusal(at::functionalization::impl::to_functional_tensor(at::ones({4}))),
              HasSubstr("wraps another one"));
  EXPECT_THAT(refusal(at::ones({}).expand(std::vector<int64_t>(65, 1))), HasSubstr("65 dimensions are more than 64"));
  EXPECT_THAT(refusal(at::empty_strided({0, int64_t{1} << 40, int64_t{1} << 40}, {1, 1, 1})), HasSubstr("too large"));
}

TEST(Tensor, OfBoolsTakesEveryByteButZeroForTrue) {
  TensorDescription description = wire::flatten(at::empty({4}, at::kBool)).description;
  auto memory = memory_for(description);
  std::memcpy(memory[0].get(), "\0\1\2\377", 4);
  at::Tensor tensor = assemble(description, std::move(memory));
  EXPECT_EQ(std::memcmp(tensor.data_ptr(), "\0\1\1\1", 4), 0);
}

TEST(Tensor, IsNotMadeOfTheWrongNumberOfParts) {
  TensorDescription description = wire::flatten(at::empty({4})).description;
  EXPECT_THROW((void)assemble(description, {}), std::logic_error);
  std::vector<c10::DataPtr> none(1);
  EXPECT_THROW((void)assemble(description, std::move(none)), std::logic_error);
}

}  // namespace
}  // namespace gradwire::wire
