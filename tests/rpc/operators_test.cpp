// Operators by name: which arguments fit, which overload runs, what an error says.
#include "gradwire/rpc/operators.h"

#include <limits>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include "gradwire/base/error.h"
#include "gradwire/wire/dtype.h"

#include "tests/support/captured_log.h"

namespace gradwire {
namespace {

using c10::IValue;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

int64_t noted = 0;

TORCH_LIBRARY(gradwire_test, library) {
  library.def("twice(Tensor x) -> Tensor", [](const at::Tensor& x) { return x.mul(2); });
  library.def("note(int value) -> ()", [](int64_t value) { noted = value; });
  library.def("halves(float x) -> float", [](double x) { return x / 2; });
  library.def("sum_of(Dict(str, Tensor) values) -> Tensor", [](const c10::Dict<std::string, at::Tensor>& values) {
    at::Tensor sum = at::zeros({});
    for (const auto& entry : values) {
      sum = sum.add(entry.value());
    }
    return sum;
  });
  library.def("pick.number(int x) -> str", [](int64_t) { return std::string("number"); });
  library.def("pick.real(float x) -> str", [](double) { return std::string("real"); });
  library.def("pick.text(str x) -> str", [](const std::string&) { return std::string("text"); });
  library.def("tied.a(int x, int y=0) -> str", [](int64_t, int64_t) { return std::string("a"); });
  library.def("tied.b(int x, str y=\"\") -> str", [](int64_t, const std::string&) { return std::string("b"); });
  library.def("fail() -> ()", []() { throw std::out_of_range("as it was thrown"); });
  library.def("refuse() -> ()", []() { throw InvalidArgumentError("the operator's own"); });
  library.def("read(str file_path) -> int", [](const std::string&) -> int64_t { return 1; });
  library.def("where(Device device) -> str", [](at::Device device) { return device.str(); });
  library.def("_hidden(int x) -> int", [](int64_t x) { return x; });
}

Operators all() {
  Operators operators;
  operators.allow("*");
  operators.allow("gradwire_test::*");
  return operators;
}

IValue call(const std::string& name, const std::vector<IValue>& arguments) { return all().call(name, arguments); }

c10::impl::GenericList generic(const std::vector<IValue>& values) {
  c10::impl::GenericList list(c10::AnyType::get());
  for (const IValue& value : values) {
    list.push_back(value);
  }
  return list;
}

TEST(Operators, RunTheOverloadThatIsNamed) {
  at::Tensor a = at::ones({2});
  EXPECT_TRUE(call("aten::add.Tensor", {a, at::full({2}, 2.0), 3}).toTensor().equal(at::full({2}, 7.0)));
  EXPECT_TRUE(call("aten::add.Scalar", {a, 2.5, 1}).toTensor().equal(at::full({2}, 3.5)));
  EXPECT_TRUE(call("aten::sum.default", {a}).toTensor().equal(at::full({}, 2.0)));
}

TEST(Operators, FillInTheDefaultsOfMissingArguments) {
  EXPECT_TRUE(call("aten::add.Tensor", {at::ones({2}), at::ones({2})}).toTensor().equal(at::full({2}, 2.0)));
  EXPECT_EQ(call("aten::argmax", {at::tensor({1, 5, 3})}).toTensor().item<int64_t>(), 1);
}

TEST(Operators, ChooseTheOverloadByTheArguments) {
  at::Tensor a = at::ones({2});
  EXPECT_TRUE(call("aten::add", {a, a}).toTensor().equal(at::full({2}, 2.0)));
  EXPECT_TRUE(call("aten::add", {a, 2}).toTensor().equal(at::full({2}, 3.0)));
  EXPECT_EQ(call("aten::max", {at::tensor({1, 5, 3})}).toTensor().item<int64_t>(), 5);
  EXPECT_TRUE(call("aten::max", {at::tensor({1, 5, 3}), 0}).isTuple());
  EXPECT_TRUE(call("aten::to", {a, c10::kDouble}).toTensor().dtype() == at::kDouble);
  EXPECT_TRUE(call("aten::arange", {1, 4}).toTensor().equal(at::arange(1, 4)));
}

TEST(Operators, PreferAnOverloadThatConvertsNothing) {
  EXPECT_EQ(call("gradwire_test::pick", {1}).toStringRef(), "number");
  EXPECT_EQ(call("gradwire_test::pick", {1.0}).toStringRef(), "real");
  EXPECT_EQ(call("gradwire_test::pick", {"1"}).toStringRef(), "text");
}

TEST(Operators, ChooseNoneWhereTwoFitEquallyWell) {
  EXPECT_THAT([] { call("gradwire_test::tied", {1}); },
              ThrowsMessage<InvalidArgumentError>(
                  AllOf(HasSubstr("gradwire_test::tied.a and gradwire_test::tied.b"), HasSubstr("name one"))));
  EXPECT_EQ(call("gradwire_test::tied", {1, "x"}).toStringRef(), "b");
  EXPECT_EQ(call("gradwire_test::tied.a", {1}).toStringRef(), "a");
}

TEST(Operators, ChooseAmongTheAllowedOverloadsOnly) {
  Operators operators;
  operators.allow("gradwire_test::tied.b");
  EXPECT_EQ(operators.call("gradwire_test::tied", {1}).toStringRef(), "b");
  EXPECT_THROW(operators.call("gradwire_test::tied.a", {1}), NotFoundError);
}

TEST(Operators, MakeFloatsOfIntegers) {
  EXPECT_EQ(call("gradwire_test::halves", {3}).toDouble(), 1.5);
  EXPECT_THROW(call("gradwire_test::note", {1.5}), InvalidArgumentError);
  EXPECT_THROW(call("gradwire_test::note", {true}), InvalidArgumentError);
}

TEST(Operators, TakeListsOfAnyKindWhoseElementsFit) {
  at::Tensor a = at::ones({2, 3});
  for (const IValue& sizes : {IValue(std::vector<int64_t>{3, 2}), IValue(generic({3, 2})),
                              IValue(c10::ivalue::Tuple::create({IValue(3), IValue(2)}))}) {
    EXPECT_EQ(call("aten::reshape", {a, sizes}).toTensor().sizes(), at::IntArrayRef({3, 2}));
  }
  EXPECT_EQ(call("aten::cat", {generic({a, a}), 1}).toTensor().sizes(), at::IntArrayRef({2, 6}));
  EXPECT_EQ(call("aten::zeros", {generic({})}).toTensor().dim(), 0);
  EXPECT_EQ(call("aten::upsample_nearest1d.vec", {at::ones({1, 1, 2}), {}, generic({2})}).toTensor().size(2), 4);
  EXPECT_THROW(call("aten::cat", {generic({a, 1}), 1}), InvalidArgumentError);
}

TEST(Operators, TakeANumberForAListOfFixedSize) {
  at::Tensor image = at::ones({1, 1, 4, 4});
  EXPECT_EQ(call("aten::avg_pool2d", {image, 2}).toTensor().sizes(), at::IntArrayRef({1, 1, 2, 2}));
  EXPECT_EQ(call("aten::sum.dim_IntList", {at::ones({2, 3}), 0}).toTensor().sizes(), at::IntArrayRef({3}));
  EXPECT_THROW(call("aten::reshape", {image, 16}), InvalidArgumentError);
}

TEST(Operators, TakeDictsWhoseEntriesFit) {
  c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
  EXPECT_EQ(call("gradwire_test::sum_of", {dict}).toTensor().item<double>(), 0);
  dict.insert("a", at::ones({}));
  dict.insert("b", at::ones({}));
  EXPECT_EQ(call("gradwire_test::sum_of", {dict}).toTensor().item<double>(), 2);
  dict.insert(1, at::ones({}));
  EXPECT_THROW(call("gradwire_test::sum_of", {dict}), InvalidArgumentError);
}

TEST(Operators, TakeNoneOrAnUndefinedTensorWhereTheyAreOptional) {
  at::Tensor x = at::ones({1, 3});
  at::Tensor weight = at::ones({2, 3});
  for (const IValue& bias : {IValue(), IValue(at::Tensor())}) {
    EXPECT_TRUE(call("aten::linear", {x, weight, bias}).toTensor().equal(at::full({1, 2}, 3.0)));
  }
  EXPECT_THROW(call("aten::relu", {IValue()}), InvalidArgumentError);
  EXPECT_THAT([] { call("aten::relu", {at::Tensor()}); },
              ThrowsMessage<InvalidArgumentError>(HasSubstr("self, is an undefined tensor, Tensor is wanted")));
}

TEST(Operators, TakeADeviceByItsName) {
  EXPECT_EQ(call("gradwire_test::where", {"cpu"}).toStringRef(), "cpu");
  EXPECT_EQ(call("gradwire_test::where", {c10::Device("cuda:1")}).toStringRef(), "cuda:1");
  EXPECT_THROW(call("gradwire_test::where", {"nowhere"}), InvalidArgumentError);
}

// Torch takes the number as an index into tables; 200 for a dtype ends the process.
TEST(Operators, RefuseADtypeThatDoesNotExist) {
  for (int64_t dtype : {int64_t{-1}, int64_t{200}, int64_t{1} << 32, std::numeric_limits<int64_t>::min()}) {
    EXPECT_THROW(call("aten::promote_types", {dtype, 6}), InvalidArgumentError);
    EXPECT_THROW(call("aten::zeros", {std::vector<int64_t>{1}, dtype}), InvalidArgumentError);
  }
  EXPECT_THROW(call("aten::zeros", {std::vector<int64_t>{1}, {}, 99}), InvalidArgumentError);
  EXPECT_THROW(call("aten::clone", {at::ones({1}), 99}), InvalidArgumentError);
  EXPECT_EQ(call("aten::zeros", {std::vector<int64_t>{1}, at::kInt}).toTensor().dtype(), at::kInt);
}

TEST(Operators, GiveSeveralResultsAsATuple) {
  IValue result = call("aten::topk", {at::tensor({1, 5, 3}), 2});
  ASSERT_TRUE(result.isTuple());
  EXPECT_TRUE(result.toTupleRef().elements()[0].toTensor().equal(at::tensor({5, 3})));
  EXPECT_TRUE(result.toTupleRef().elements()[1].toTensor().equal(at::tensor({1, 2})));
}

TEST(Operators, GiveNoneWhereThereIsNoResult) {
  noted = 0;
  EXPECT_TRUE(call("gradwire_test::note", {7}).isNone());
  EXPECT_EQ(noted, 7);
}

TEST(Operators, PassOnWhatTheOperatorThrows) {
  EXPECT_THROW(call("gradwire_test::fail", {}), std::out_of_range);
  EXPECT_THROW(call("aten::mm", {at::ones({2, 3}), at::ones({2, 3})}), c10::Error);
}

TEST(Operators, RefuseBeforeTheyRun) {
  Operators operators = all();
  EXPECT_THROW((void)operators.prepare("gradwire_test::note", {"x"}), InvalidArgumentError);
  EXPECT_THROW((void)operators.prepare("gradwire_test::read", {"x"}), NotFoundError);
  std::function<IValue()> refuse = operators.prepare("gradwire_test::refuse", {});
  EXPECT_THROW(refuse(), InvalidArgumentError);
  noted = 0;
  std::function<IValue()> note = operators.prepare("gradwire_test::note", {3});
  EXPECT_EQ(noted, 0);
  note();
  EXPECT_EQ(noted, 3);
}

TEST(Operators, SayWhichArgumentIsWrongAndShowTheSchema) {
  EXPECT_THAT([] { call("aten::add.Tensor", {at::ones({2}), "x"}); },
              ThrowsMessage<InvalidArgumentError>(
                  AllOf(HasSubstr("argument 2, other, is str \"x\", Tensor is wanted"),
                        HasSubstr("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"))));
  EXPECT_THAT([] { call("aten::relu", {}); }, ThrowsMessage<InvalidArgumentError>(HasSubstr("self, is missing")));
  EXPECT_THAT([] { call("aten::relu", {at::ones({}), 1, 2}); },
              ThrowsMessage<InvalidArgumentError>(HasSubstr("3 are given, 1 are taken")));
}

// An int that stands for a dtype which the caller's torch has and this one does not.
TEST(Operators, NameADtypeThatThisTorchDoesNotHave) {
  const int64_t number = wire::dtype_of_no_torch.number;
  for (const char* name : {"aten::to.dtype", "aten::sum.default"}) {  // the second one's is optional
    EXPECT_THAT([&] { call(name, {at::ones({2}), number}); },
                ThrowsMessage<InvalidArgumentError>(HasSubstr("NoTorchHasThis")))
        << name;
  }
  EXPECT_THAT([&] { call("aten::to.dtype", {at::ones({2}), 256}); },
              ThrowsMessage<InvalidArgumentError>(HasSubstr("int 256")));
}

TEST(Operators, AreNotAllowedUnlessAskedFor) {
  Operators operators;
  EXPECT_THAT([&] { operators.call("aten::relu", {at::ones({})}); },
              ThrowsMessage<NotFoundError>(
                  AllOf(HasSubstr("must be allowed by the callee's registry"), HasSubstr("which allows none"))));
  operators.allow("gradwire_test::*");
  operators.allow("aten::mm");
  EXPECT_THAT([&] { operators.call("aten::relu", {at::ones({})}); },
              ThrowsMessage<NotFoundError>(HasSubstr("which allows gradwire_test::*, aten::mm")));
  EXPECT_NO_THROW(operators.call("gradwire_test::twice", {at::ones({})}));
}

TEST(Operators, ThatDoNotExistAreNamedWithThoseThatAreLikeThem) {
  EXPECT_THAT([] { call("aten::add.Tenser", {}); }, ThrowsMessage<NotFoundError>(HasSubstr("aten::add.Tensor")));
  EXPECT_THAT([] { call("aten::softmaks", {}); }, ThrowsMessage<NotFoundError>(HasSubstr("aten::softmax")));
  EXPECT_THAT([] { call("nowhere::nothing", {}); },
              ThrowsMessage<NotFoundError>(::testing::EndsWith("no operator \"nowhere::nothing\" at the callee")));
  EXPECT_THROW(call("", {}), NotFoundError);
}

TEST(Operators, AreFoundWhenTheirLibraryIsLoadedLater) {
  Operators operators;
  operators.allow("gradwire_test_later::*");
  EXPECT_THROW(operators.call("gradwire_test_later::one", {}), NotFoundError);
  {
    torch::Library later(torch::Library::DEF, "gradwire_test_later", std::nullopt, __FILE__, __LINE__);
    later.def("one() -> int", []() -> int64_t { return 1; });
    EXPECT_EQ(operators.call("gradwire_test_later::one", {}).toInt(), 1);
  }
  EXPECT_THROW(operators.call("gradwire_test_later::one", {}), NotFoundError);
}

struct PatternCase {
  std::string pattern;
  std::vector<std::string> allowed;
  std::vector<std::string> others;
};

TEST(Operators, AreAllowedByPatterns) {
  const std::vector<PatternCase> cases = {
      {"aten::relu", {"aten::relu", "aten::relu.default"}, {"aten::relu_", "aten::relu6"}},
      {"aten::relu*", {"aten::relu", "aten::relu_", "aten::relu6"}, {"aten::prelu"}},
      {"aten::*elu", {"aten::relu", "aten::celu"}, {"aten::relu_"}},
      {"aten::r*l*u", {"aten::relu"}, {"aten::prelu", "aten::relu_"}},
      {"aten::add", {"aten::add", "aten::add.Tensor"}, {"aten::add_.Tensor"}},
      {"aten::add.Tensor", {"aten::add.Tensor", "aten::add"}, {"aten::add.Scalar"}},
      {"aten::add.*", {"aten::add.Tensor", "aten::add.Scalar"}, {"aten::add_.Tensor"}},
      {"aten::relu.*", {"aten::relu"}, {"aten::relu_"}},
      {"*::relu", {"aten::relu"}, {"aten::relu6", "gradwire_test::twice"}},
      {"*", {"aten::relu", "aten::__and__.Scalar"}, {"gradwire_test::twice"}},
      {"gradwire_test::read", {"gradwire_test::read"}, {}},
      {"gradwire_test::_hidden", {"gradwire_test::_hidden"}, {}},
      {"gradwire_test::*", {"gradwire_test::twice"}, {"gradwire_test::read", "gradwire_test::_hidden"}},
      {"gradwire_test::_*", {}, {"gradwire_test::_hidden"}},
  };
  for (const PatternCase& one : cases) {
    Operators operators;
    operators.allow(one.pattern);
    // With a hundred arguments no operator runs: it is refused for them or for being out of reach.
    const std::vector<IValue> too_many(100, IValue());
    for (const std::string& name : one.allowed) {
      EXPECT_THROW(operators.call(name, too_many), InvalidArgumentError) << one.pattern << " " << name;
    }
    for (const std::string& name : one.others) {
      EXPECT_THROW(operators.call(name, too_many), NotFoundError) << one.pattern << " " << name;
    }
  }
}

TEST(Operators, AreNotNamedByWhatIsNoPattern) {
  Operators operators;
  for (const char* pattern : {"", "add", "aten:add", "aten::ad?", "aten::[ab]*", "aten::add Tensor", "**"}) {
    EXPECT_THROW(operators.allow(pattern), InvalidArgumentError) << pattern;
  }
}

// Only a namespace that is spelt out reaches outside aten.
TEST(Operators, APatternThatReachesNoneIsRefused) {
  Operators operators;
  for (const char* pattern : {"torchvis*::*", "gradwire_tes*::*", "*::twice", "gradwire_tes*::twice", "aten::gradwire*",
                              "*::*_backward", "aten::empty_*"}) {
    EXPECT_THAT([&] { operators.allow(pattern); }, ThrowsMessage<InvalidArgumentError>(HasSubstr(pattern)));
  }
  EXPECT_THAT([&] { operators.allow("aten::from_fil*"); },
              ThrowsMessage<InvalidArgumentError>(HasSubstr("aten::from_file.default")));
  EXPECT_THROW(operators.call("gradwire_test::twice", {at::ones({})}), NotFoundError);
}

TEST(Operators, APatternThatReachesNoneOfALibraryThatIsLoadedIsWarnedOf) {
  const auto warning = [](const char* pattern) {
    testing::CapturedLog captured;
    Operators().allow(pattern);
    return captured.take();
  };
  for (const char* pattern : {"gradwire_test::*", "gradwire_test_not_loaded::*", "*"}) {
    EXPECT_EQ(warning(pattern), "");
  }
  EXPECT_THAT(warning("gradwire_test::twise*"), HasSubstr("gradwire_test::twise*"));
  EXPECT_THAT(warning("gradwire_test::_*"), AllOf(HasSubstr("gradwire_test::_*"), HasSubstr("gradwire_test::_hidden")));
}

TEST(Operators, OfACopyAreItsOwn) {
  Operators one;
  Operators two = one;
  two.allow("aten::relu");
  EXPECT_NO_THROW(two.call("aten::relu", {at::ones({})}));
  EXPECT_THROW(one.call("aten::relu", {at::ones({})}), NotFoundError);
}

}  // namespace
}  // namespace gradwire
