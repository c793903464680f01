#include "gradwire/wire/codec.h"

#include <limits>
#include <memory>
#include <thread>

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "gradwire/base/error.h"

#include "tests/support/thrown.h"

namespace {

// Made of nothing, and not there by default: only its own codec can make one.
class Token {
 public:
  static Token make() { return Token(); }
  bool operator==(const Token&) const = default;

 private:
  Token() = default;
};

// Contains itself.
struct Tree {
  int value = 0;
  std::vector<Tree> children;
  bool operator==(const Tree&) const = default;
};

// Cannot be made.
struct Impossible {
  explicit Impossible(int) { throw std::runtime_error("impossible"); }
  Impossible(const Impossible&) {}
};

}  // namespace

template <>
struct gradwire::Codec<Impossible> {
  static void encode(wire::Encoder&, const Impossible&) {}
  static Impossible decode(wire::Decoder&) { return Impossible(0); }
  static std::string signature() { return "Impossible"; }
};

template <>
struct gradwire::Codec<Token> {
  static void encode(wire::Encoder&, const Token&) {}
  static Token decode(wire::Decoder&) { return Token::make(); }
  static std::string signature() { return "Token"; }
};

template <>
struct gradwire::Codec<Tree> {
  static void encode(wire::Encoder& encoder, const Tree& tree) {
    encoder.put(tree.value);
    encoder.put(tree.children);
  }
  static Tree decode(wire::Decoder& decoder) {
    auto value = decoder.take<int>();
    return {value, decoder.take<std::vector<Tree>>()};
  }
  static std::string signature() { return "Tree"; }
};

namespace gradwire::wire {
namespace {

using ::testing::HasSubstr;

enum class Colour : uint8_t { red, green = 200 };
enum Plain { first, second };

template <class T>
void expect_round_trip(const T& value) {
  EXPECT_EQ(decode<T>(encode(value)), value) << Codec<T>::signature();
}

template <class T>
void expect_limits_to_travel() {
  expect_round_trip(std::numeric_limits<T>::min());
  expect_round_trip(std::numeric_limits<T>::max());
  expect_round_trip(std::numeric_limits<T>::lowest());
  expect_round_trip(T{1});
}

TEST(Codec, CarriesNumbersOfEveryWidth) {
  expect_limits_to_travel<bool>();
  expect_limits_to_travel<char>();
  expect_limits_to_travel<int8_t>();
  expect_limits_to_travel<uint8_t>();
  expect_limits_to_travel<int16_t>();
  expect_limits_to_travel<uint16_t>();
  expect_limits_to_travel<int>();
  expect_limits_to_travel<unsigned>();
  expect_limits_to_travel<long>();
  expect_limits_to_travel<unsigned long>();
  expect_limits_to_travel<long long>();
  expect_limits_to_travel<size_t>();
  expect_limits_to_travel<float>();
  expect_limits_to_travel<double>();
  expect_round_trip(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(decode<float>(encode(std::numeric_limits<float>::quiet_NaN()))));
  expect_round_trip(std::complex<float>(1, -2));
  expect_round_trip(std::complex<double>(3, 1e300));
}

TEST(Codec, CarriesEnums) {
  expect_round_trip(Colour::green);
  expect_round_trip(second);
}

TEST(Codec, CarriesStringsWithAnyBytes) {
  expect_round_trip(std::string());
  expect_round_trip(std::string("zero \0 inside", 13));
  expect_round_trip(std::string(100000, '\377'));
}

TEST(Codec, CarriesTensorsBesideTheBytes) {
  at::Tensor tensor = at::randn({1000});
  Payload payload = encode(tensor, 7, tensor);
  EXPECT_EQ(payload.bytes.size(), sizeof(int));
  ASSERT_EQ(payload.tensors.size(), 2);
  auto [first_copy, number, second_copy] = decode_all<at::Tensor, int, at::Tensor>(std::move(payload));
  EXPECT_TRUE(first_copy.is_same(tensor));
  EXPECT_TRUE(second_copy.is_same(tensor));
  EXPECT_EQ(number, 7);
  EXPECT_FALSE(decode<at::Tensor>(encode(at::Tensor())).defined());
}

TEST(Codec, CarriesSequences) {
  expect_round_trip(std::vector<int>());
  expect_round_trip(std::vector<double>{1, 2.5, -3});
  expect_round_trip(std::vector<bool>{true, false, true});
  expect_round_trip(std::vector<std::complex<float>>{{1, 2}, {3, 4}});
  expect_round_trip(std::vector<std::string>{"", "a", "bc"});
  expect_round_trip(std::vector<std::vector<int16_t>>{{}, {1}, {2, 3}});
  expect_round_trip(std::vector<Colour>{Colour::red, Colour::green});
  expect_round_trip(std::array<float, 3>{1, 2, 3});
  expect_round_trip(std::array<std::string, 2>{"x", "y"});
  expect_round_trip(std::array<bool, 2>{false, true});
  expect_round_trip(std::array<int, 0>{});
  auto tensors = decode<std::vector<at::Tensor>>(encode(std::vector<at::Tensor>{at::ones({2}), at::Tensor()}));
  ASSERT_EQ(tensors.size(), 2);
  EXPECT_FALSE(tensors[1].defined());
}

TEST(Codec, CopiesVectorsOfNumbersWithoutOverhead) {
  EXPECT_EQ(encode(std::vector<float>(1000)).bytes.size(), 8 + 4000);
  EXPECT_EQ(encode(std::array<uint8_t, 5>{}).bytes.size(), 5);
}

TEST(Codec, CarriesPairsAndTuples) {
  expect_round_trip(std::pair<int, std::string>(1, "one"));
  expect_round_trip(std::tuple<>());
  expect_round_trip(std::tuple<int>(1));
  expect_round_trip(std::tuple<std::tuple<int>>(std::tuple<int>(1)));
  expect_round_trip(std::tuple<int, std::string, std::vector<bool>>(1, "one", {true}));
}

TEST(Codec, CarriesMaps) {
  expect_round_trip(std::map<std::string, int>());
  expect_round_trip(std::map<std::string, int>{{"a", 1}, {"b", 2}});
  expect_round_trip(std::map<int, int, std::greater<>>{{1, 1}, {2, 4}, {3, 9}});
  expect_round_trip(std::unordered_map<int, std::string>{{1, "one"}, {-1, "minus one"}});
  expect_round_trip(std::unordered_map<std::string, std::map<int, double>>{{"x", {{1, 2.0}}}, {"y", {}}});
}

TEST(Codec, CarriesOptionalsAndVariants) {
  expect_round_trip(std::optional<int>());
  expect_round_trip(std::optional<int>(3));
  expect_round_trip(std::optional<std::optional<std::string>>(std::optional<std::string>()));
  using Either = std::variant<std::monostate, int, std::string, int>;
  expect_round_trip(Either());
  expect_round_trip(Either("text"));
  expect_round_trip(Either(std::in_place_index<1>, 5));
  expect_round_trip(Either(std::in_place_index<3>, 5));
}

TEST(Codec, CarriesValuesMadeOfNothing) {
  expect_round_trip(std::monostate());
  expect_round_trip(std::vector<std::monostate>(5));
  expect_round_trip(std::vector<std::tuple<>>(3));
  expect_round_trip(Token::make());
  expect_round_trip(std::vector<Token>(4, Token::make()));
  expect_round_trip(std::pair<Token, int>(Token::make(), 1));
}

TEST(Codec, CarriesTypesForWhichItIsSpecialised) {
  expect_round_trip(Tree{1, {{2, {}}, {3, {{4, {}}}}}});
  expect_round_trip(std::optional<Tree>(Tree{1, {}}));
}

TEST(Codec, TakesTextOfAnyKindAsString) {
  static_assert(std::same_as<AsValue<const char(&)[6]>, std::string>);
  static_assert(std::same_as<AsValue<const char*>, std::string>);
  static_assert(std::same_as<AsValue<std::string_view&>, std::string>);
  static_assert(std::same_as<AsValue<const std::string&>, std::string>);
  static_assert(std::same_as<AsValue<const at::Tensor&>, at::Tensor>);
  static_assert(std::same_as<AsValue<int&&>, int>);
}

TEST(Codec, KnowsWhatCannotTravel) {
  static_assert(!Travels<std::thread>);
  static_assert(!Travels<std::unique_ptr<int>>);
  static_assert(!Travels<const char*>);
  static_assert(!Travels<std::string_view>);
  static_assert(!Travels<long double>);
  static_assert(!Travels<int&>);
  static_assert(!Travels<const int>);
  static_assert(!Travels<void*>);
  static_assert(!Travels<std::vector<std::thread>>);
  static_assert(!Travels<std::map<int, void*>>);
  static_assert(!Travels<std::optional<std::string_view>>);
  static_assert(!Travels<std::variant<int, void*>>);
  static_assert(!Travels<std::tuple<int, std::thread>>);
  static_assert(!Travels<std::array<void*, 3>>);
  static_assert(Travels<at::Tensor>);
  static_assert(Travels<c10::IValue>);
}

TEST(Codec, SignsTypesReadably) {
  EXPECT_EQ(Codec<at::Tensor>::signature(), "Tensor");
  EXPECT_EQ((Codec<std::vector<int64_t>>::signature()), "vector<int64>");
  EXPECT_EQ((Codec<std::vector<long long>>::signature()), "vector<int64>");
  EXPECT_EQ((Codec<std::map<std::string, std::optional<double>>>::signature()), "map<string,optional<double>>");
  EXPECT_EQ((Codec<std::unordered_map<uint8_t, bool>>::signature()), "unordered_map<uint8,bool>");
  EXPECT_EQ((Codec<std::array<float, 3>>::signature()), "array<float,3>");
  EXPECT_EQ((Codec<std::variant<std::monostate, char>>::signature()), "variant<monostate,char>");
  EXPECT_EQ((Codec<std::pair<int, std::tuple<>>>::signature()), "pair<int32,tuple<>>");
  EXPECT_EQ(Codec<std::complex<double>>::signature(), "complex<double>");
  EXPECT_EQ(Codec<Colour>::signature(), "Colour:uint8");
  EXPECT_EQ(Codec<c10::IValue>::signature(), "IValue");
  EXPECT_EQ(Codec<std::vector<Tree>>::signature(), "vector<Tree>");
}

TEST(Codec, RefusesWhatIsLeftOver) {
  EXPECT_THAT(testing::thrown<MalformedError>([] { (void)decode<int>(encode(1, 2)); }),
              HasSubstr("4 bytes are left over"));
  EXPECT_THAT(testing::thrown<MalformedError>([] { (void)decode<int>(encode(1, at::Tensor())); }),
              HasSubstr("1 tensors are left over"));
  EXPECT_THAT(testing::thrown<MalformedError>([] { (void)decode_all<>(encode(1)); }),
              HasSubstr("4 bytes are left over"));
}

TEST(Codec, RefusesWhatIsMissing) {
  EXPECT_THAT(testing::thrown<MalformedError>([] { (void)decode<int64_t>(encode(1)); }),
              HasSubstr("8 bytes are wanted, 4 are left"));
  EXPECT_THAT(testing::thrown<MalformedError>([] { (void)decode<at::Tensor>(encode()); }),
              HasSubstr("a tensor is wanted"));
}

TEST(Codec, RefusesWhatNoEncoderWrites) {
  auto decoding = [](auto type, std::string bytes) {
    return testing::thrown<MalformedError>(
        [&] { (void)decode<typename decltype(type)::type>(Payload{std::move(bytes), {}}); });
  };
  EXPECT_THAT(decoding(std::type_identity<std::variant<int, float>>(), std::string(5, '\2')),
              HasSubstr("alternative 2 of a variant of 2"));
  EXPECT_THAT(decoding(std::type_identity<std::optional<char>>(), "\3x"), HasSubstr("a bool is 0 or 1, not 3"));
  EXPECT_THAT(decoding(std::type_identity<std::monostate>(), "\1"), HasSubstr("an empty value is one byte of 0"));
  EXPECT_THAT(decoding(std::type_identity<std::map<bool, bool>>(), std::string("\2\0\0\0\0\0\0\0\1\1\1\1", 12)),
              HasSubstr("the same key twice"));
}

TEST(Codec, RefusesToNestWithoutEnd) {
  Tree tree;
  for (int i = 0; i < 1000; ++i) {
    tree = Tree{i, {std::move(tree)}};
  }
  EXPECT_THROW((void)encode(tree), InvalidArgumentError);
  std::string bytes;
  for (int i = 0; i < 100000; ++i) {
    bytes += std::string("\0\0\0\0\1\0\0\0\0\0\0\0", 12);
  }
  EXPECT_THAT(testing::thrown<MalformedError>([&] { (void)decode<Tree>(Payload{bytes, {}}); }),
              HasSubstr("nested more than 64 deep"));
}

TEST(Codec, RefusesAVariantWithoutAValue) {
  std::variant<int, Impossible> value;
  EXPECT_THROW(value.emplace<Impossible>(0), std::runtime_error);
  ASSERT_TRUE(value.valueless_by_exception());
  EXPECT_THROW((void)encode(value), InvalidArgumentError);
}

}  // namespace
}  // namespace gradwire::wire
