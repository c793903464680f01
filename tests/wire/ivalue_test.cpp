#include <limits>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/core/jit_type.h>
#include <gmock/gmock.h>

#include "gradwire/base/error.h"
#include "gradwire/wire/codec.h"
#include "gradwire/wire/dict_keys.h"

#include "tests/support/thrown.h"

namespace gradwire::wire {
namespace {

using c10::IValue;
using ::testing::AllOf;
using ::testing::HasSubstr;

IValue round_trip(const IValue& value) { return decode<IValue>(encode(value)); }

// The same value, and the same type down to the elements of empty lists.
void expect_round_trip(const IValue& value) {
  IValue arrived = round_trip(value);
  EXPECT_EQ(*arrived.type(), *value.type());
  EXPECT_TRUE(IValue(arrived.equals(value)).toBool()) << value << " became " << arrived;
}

TEST(IValue, OfASimpleKindTravels) {
  EXPECT_TRUE(round_trip(IValue()).isNone());
  expect_round_trip(true);
  expect_round_trip(false);
  expect_round_trip(std::numeric_limits<int64_t>::min());
  expect_round_trip(2.5);
  expect_round_trip(c10::complex<double>(1, -1));
  expect_round_trip("text");
  expect_round_trip(std::string());
  expect_round_trip(c10::Device("cpu"));
  expect_round_trip(c10::Device("cuda:3"));
  expect_round_trip(static_cast<int64_t>(at::kHalf));
  EXPECT_EQ(round_trip(std::numeric_limits<uint64_t>::max()).toUInt(), std::numeric_limits<uint64_t>::max());
}

TEST(IValue, OfATensorTravelsBesideTheBytes) {
  at::Tensor tensor = at::randn({3});
  Payload payload = encode(IValue(tensor));
  EXPECT_EQ(payload.bytes.size(), 1);
  EXPECT_TRUE(decode<IValue>(std::move(payload)).toTensor().is_same(tensor));
  IValue undefined = round_trip(at::Tensor());
  EXPECT_TRUE(undefined.isTensor());
  EXPECT_FALSE(undefined.toTensor().defined());
}

TEST(IValue, OfAListKeepsTheTypeOfItsElements) {
  expect_round_trip(c10::List<int64_t>());
  expect_round_trip(c10::List<int64_t>({1, 2, 3}));
  expect_round_trip(c10::List<double>({1.5}));
  expect_round_trip(c10::List<bool>({true, false}));
  expect_round_trip(c10::List<std::string>({"a", ""}));
  expect_round_trip(c10::List<c10::complex<double>>({c10::complex<double>(1, 2)}));
  expect_round_trip(c10::List<c10::Device>({c10::Device("cpu")}));
  expect_round_trip(c10::List<std::optional<int64_t>>({std::nullopt, 3}));
  expect_round_trip(c10::List<c10::List<int64_t>>({c10::List<int64_t>(), c10::List<int64_t>({1})}));
  expect_round_trip(c10::List<std::tuple<int64_t, std::string>>({std::tuple<int64_t, std::string>(1, "one")}));
  expect_round_trip(c10::List<c10::Dict<std::string, int64_t>>());
  c10::List<at::Tensor> tensors({at::ones({2}), at::Tensor()});
  EXPECT_EQ(round_trip(tensors).toTensorVector().size(), 2);
  EXPECT_TRUE(round_trip(c10::List<std::optional<at::Tensor>>({std::nullopt, at::ones({1})})).isOptionalTensorList());
  c10::impl::GenericList mixed(c10::AnyType::get());
  mixed.push_back(1);
  mixed.push_back("two");
  mixed.push_back(IValue());
  mixed.push_back(c10::List<double>({3.0}));
  expect_round_trip(mixed);
  c10::impl::GenericList nones(c10::NoneType::get());
  nones.push_back(IValue());
  expect_round_trip(nones);
  c10::impl::GenericList numbers(c10::NumberType::get());
  numbers.push_back(1);
  numbers.push_back(2.5);
  expect_round_trip(numbers);
}

TEST(IValue, OfADictKeepsTypesAndOrder) {
  c10::Dict<std::string, int64_t> dict;
  for (const char* key : {"z", "a", "m"}) {
    dict.insert(key, dict.size());
  }
  expect_round_trip(dict);
  auto arrived = c10::impl::toTypedDict<std::string, int64_t>(round_trip(dict).toGenericDict());
  EXPECT_EQ(arrived.begin()->key(), "z");
  expect_round_trip(c10::Dict<int64_t, at::Tensor>());
  expect_round_trip(c10::Dict<bool, c10::List<double>>());
  c10::Dict<double, c10::Dict<std::string, int64_t>> nested;
  nested.insert(1.5, dict);
  expect_round_trip(nested);
  c10::Dict<at::Tensor, int64_t> by_tensor;
  by_tensor.insert(at::Tensor(), 1);
  by_tensor.insert(at::ones({1}), 2);
  EXPECT_EQ(round_trip(by_tensor).toGenericDict().size(), 2);
  c10::Dict<int64_t, int64_t> large;
  for (int64_t i = 0; i < 10000; ++i) {
    large.insert(i << 20, i);
  }
  expect_round_trip(large);
  c10::Dict<std::string, std::string> words;
  for (int i = 0; i < 10000; ++i) {
    words.insert("key " + std::to_string(i), "value");
  }
  expect_round_trip(words);
}

TEST(IValue, OfATupleKeepsItsElements) {
  expect_round_trip(c10::ivalue::Tuple::create(std::vector<IValue>{}));
  expect_round_trip(c10::ivalue::Tuple::create({1, "two", 3.0, IValue()}));
  expect_round_trip(c10::ivalue::Tuple::create({c10::ivalue::Tuple::create({1}), c10::List<int64_t>({2})}));
  expect_round_trip(c10::List<std::tuple<>>({std::tuple<>(), std::tuple<>()}));
}

TEST(IValue, OfANamedTupleArrivesAsAPlainOne) {
  auto type = c10::TupleType::createNamed(c10::QualifiedName("Point"), std::vector<std::string>{"x", "y"},
                                          {c10::IntType::get(), c10::IntType::get()});
  IValue arrived = round_trip(c10::ivalue::Tuple::createNamed({1, 2}, type));
  EXPECT_EQ(arrived.toTupleRef().elements()[1].toInt(), 2);
  EXPECT_FALSE(arrived.type()->expectRef<c10::TupleType>().name());
}

TEST(IValue, ThatIsNotDataIsRefusedInWords) {
  auto refusal = [](const IValue& value) {
    return testing::thrown<InvalidArgumentError>([&] { (void)encode(value); });
  };
  EXPECT_THAT(refusal(IValue::make_capsule(c10::make_intrusive<torch::CustomClassHolder>())),
              AllOf(HasSubstr("an IValue of kind Capsule cannot be sent"), HasSubstr("travels if it is none, bool")));
  EXPECT_THAT(refusal(c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get())), HasSubstr("kind Future"));
  EXPECT_THAT(refusal(at::detail::createCPUGenerator()), HasSubstr("kind Generator"));
  EXPECT_THAT(refusal(c10::Storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(), nullptr, false)),
              HasSubstr("kind Storage"));
  c10::impl::GenericList inside(c10::AnyType::get());
  inside.push_back(IValue::make_capsule(c10::make_intrusive<torch::CustomClassHolder>()));
  EXPECT_THAT(refusal(inside), HasSubstr("kind Capsule"));
  EXPECT_THAT(refusal(c10::impl::GenericList(c10::CapsuleType::get())), HasSubstr("a list or dict of Capsule"));
  c10::impl::GenericList wrong(c10::IntType::get());
  wrong.push_back("text");
  EXPECT_THAT(refusal(wrong), HasSubstr("an IValue of kind String in a place of type int"));
  c10::impl::GenericList itself(c10::AnyType::get());
  itself.push_back(itself);
  EXPECT_THAT(refusal(itself), HasSubstr("nested more than 64 deep"));
  itself.clear();
}

std::string malformed(const std::string& bytes) {
  return testing::thrown<MalformedError>([&] { (void)decode<IValue>(Payload{bytes, {}}); });
}

TEST(IValue, C21_ThatNoEncoderWritesIsRefused) {
  auto count = [](uint64_t number) { return std::string(reinterpret_cast<const char*>(&number), sizeof(number)); };
  EXPECT_THAT(malformed("\x10"), HasSubstr("a value of unknown kind 16"));
  EXPECT_THAT(malformed(std::string("\0", 1)), HasSubstr("a value of unknown kind 0"));
  EXPECT_THAT(malformed("\x0b\x20"), HasSubstr("a type of unknown kind 32"));
  EXPECT_THAT(malformed("\x07\x7f\x01"), HasSubstr("device 127:1"));
  EXPECT_THAT(malformed(std::string("\x07\0\x05", 3)), HasSubstr("device 0:5"));
  EXPECT_THAT(malformed("\x0b\x03" + count(uint64_t{1} << 60)), HasSubstr("values are announced"));
  EXPECT_THAT(malformed("\x0d" + count(1000)), HasSubstr("1000 values are announced"));
  EXPECT_THAT(malformed("\x0c\x0b\x03\x03"), HasSubstr("keys that cannot be keys"));
  EXPECT_THAT(malformed(std::string("\x0c\0\x02", 3) + count(1) + "\x01\x01"), HasSubstr("a key of kind None"));
  EXPECT_THAT(malformed("\x0c\x02\x02" + count(2) + "\x01\x01\x01\x01"), HasSubstr("the same key twice"));
  EXPECT_THAT(malformed("\x0b\x09" + count(1) + "\x06" + count(0)), HasSubstr("a number of kind String"));
  EXPECT_THAT(malformed("\x0b" + std::string(100000, '\x0b')), HasSubstr("nested more than 64 deep"));
  std::string deep;
  for (int i = 0; i < 10000; ++i) {
    deep += "\x0d" + count(1);
  }
  EXPECT_THAT(malformed(deep + "\x01"), HasSubstr("nested more than 64 deep"));
}

TEST(IValue, C21_OfADictWhoseKeysWereChosenToCollideIsRefused) {
  // The table's place for a key is the upper bits of key * factor: the multiples of its inverse all want place 0.
  uint64_t factor = 11400714819323198485U;
  uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) {
    inverse *= 2 - factor * inverse;
  }
  std::string bytes = "\x0c\x03\x02";
  uint64_t count = 64;
  bytes.append(reinterpret_cast<const char*>(&count), sizeof(count));
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t key = i * inverse;
    bytes.append(reinterpret_cast<const char*>(&key), sizeof(key));
    bytes += '\0';
  }
  EXPECT_THAT(malformed(bytes), HasSubstr("a dict of 64 keys that collide"));
  EXPECT_FALSE(keys_spread(std::vector<IValue>(64, IValue(std::numeric_limits<double>::quiet_NaN()))));
}

}  // namespace
}  // namespace gradwire::wire
