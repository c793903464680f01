// What may be given for a parameter, and what is refused: at compile time, or by value at the call (N10).
#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"

namespace gradwire {
namespace {

using detail::Convertible;
using detail::Narrowing;

enum Colour { red, green };

static_assert(Narrowing<double, int> && Narrowing<float, int64_t> && Narrowing<double, bool> &&
              Narrowing<double, char>);
static_assert(Narrowing<double, float> && Narrowing<const double&, const float&> && Narrowing<long double, double>);
static_assert(Narrowing<double, std::optional<int>> && Narrowing<std::optional<double>, std::optional<float>>);
static_assert(Narrowing<const char (&)[5], bool>, "a text is no bool");
static_assert(!Narrowing<int, double> && !Narrowing<int64_t, float> && !Narrowing<float, double> &&
              !Narrowing<bool, int>);
static_assert(!Narrowing<double, double> && !Narrowing<int64_t, int8_t> && !Narrowing<int, bool> &&
              !Narrowing<Colour, int>);
static_assert(!Narrowing<at::Tensor, at::Tensor> && !Narrowing<const char (&)[5], std::string>);
static_assert(!Narrowing<int, std::optional<double>> && !Narrowing<std::nullopt_t, std::optional<int>>);

template <class T>
using Pair = std::pair<T, T>;

TEST(Arguments, N10_WhatWouldNarrowInsideAPairOrATupleDoesNotCompile) {
  static_assert(Narrowing<Pair<double>, Pair<int>> && Narrowing<std::pair<int, double>, Pair<int>> &&
                Narrowing<Pair<double>&, const Pair<float>&>);
  static_assert(Narrowing<std::tuple<double>, std::tuple<int>> &&
                Narrowing<std::tuple<int, std::string, double>, std::tuple<int, std::string, float>> &&
                Narrowing<Pair<double>, std::tuple<double, float>>);
  static_assert(Narrowing<double, std::tuple<int>>, "C++ makes a tuple of one element from the element");
  static_assert(Narrowing<std::tuple<int, Pair<double>>, std::tuple<int, std::pair<double, bool>>>);
  static_assert(Narrowing<Pair<double>, std::optional<Pair<int>>> &&
                Narrowing<std::optional<Pair<double>>, std::optional<Pair<float>>> &&
                Narrowing<std::pair<int, std::optional<double>>, std::pair<int, std::optional<int>>>);
  static_assert(Narrowing<std::pair<int, const char*>, std::pair<int, bool>>, "a text is no bool");
  static_assert(!Narrowing<Pair<double>, Pair<double>> && !Narrowing<Pair<int>, Pair<double>> &&
                !Narrowing<Pair<int64_t>, Pair<int8_t>> && !Narrowing<Pair<float>, std::tuple<double, double>> &&
                !Narrowing<std::tuple<>, std::tuple<>> &&
                !Narrowing<std::pair<const char*, int>, std::pair<std::string, double>>);
  // Elements of other containers are never converted.
  static_assert(!Convertible<std::vector<double>, std::vector<int>> &&
                !Convertible<std::vector<Pair<double>>, std::vector<Pair<int>>> &&
                !Convertible<std::map<int, double>, std::map<int, int>>);
}

TEST(Arguments, N10_WhatWouldNarrowToAComplexOrASmallFloatingNumberDoesNotCompile) {
  static_assert(Narrowing<double, std::complex<float>> && Narrowing<double, c10::complex<float>> &&
                Narrowing<Pair<double>, Pair<std::complex<float>>> &&
                Narrowing<double, std::optional<std::complex<float>>>);
  static_assert(!Convertible<std::complex<double>, std::complex<float>> &&
                !Convertible<c10::complex<double>, c10::complex<float>>);
  static_assert(!Narrowing<float, std::complex<float>> && !Narrowing<float, std::complex<double>> &&
                !Narrowing<int, std::complex<float>> && !Narrowing<std::complex<float>, std::complex<double>>);
  static_assert(Narrowing<double, at::Half> && Narrowing<float, at::Half> && Narrowing<float, at::BFloat16> &&
                Narrowing<double, std::optional<at::BFloat16>>);
  static_assert(Narrowing<at::Half, int> && Narrowing<at::BFloat16, int64_t> && Narrowing<at::Half, bool> &&
                Narrowing<Pair<at::Half>, Pair<int>>);
  static_assert(!Narrowing<at::Half, float> && !Narrowing<at::BFloat16, double> && !Narrowing<int, at::Half> &&
                !Narrowing<at::Half, at::Half>);
}

constexpr Function<int(int8_t)> of_small{"of_small"};
constexpr Function<uint64_t(uint64_t)> of_unsigned{"of_unsigned"};
constexpr Function<bool(bool)> of_bool{"of_bool"};
constexpr Function<char(std::string, char)> of_char{"of_char"};
constexpr Function<double(double)> of_double{"of_double"};
constexpr Function<int(std::optional<uint8_t>)> of_optional{"of_optional"};
constexpr Function<int(std::pair<int8_t, std::string>)> of_pair{"of_pair"};
constexpr Function<int(std::optional<std::tuple<std::optional<uint8_t>, std::pair<int, uint16_t>>>)> of_tuple{
    "of_tuple"};
constexpr Function<int(std::tuple<int8_t>)> of_tuple_of_one{"of_tuple_of_one"};
constexpr Function<double(std::complex<double>)> of_complex{"of_complex"};

struct Counter {
  int add(int8_t more) { return sum += more; }
  int sum = 0;
};

Registry make_registry() {
  Registry registry;
  registry.add(of_small, [](int8_t x) { return static_cast<int>(x); });
  registry.add(of_unsigned, [](uint64_t x) { return x; });
  registry.add(of_bool, [](bool x) { return x; });
  registry.add(of_char, [](const std::string&, char x) { return x; });
  registry.add(of_double, [](double x) { return x; });
  registry.add(of_optional, [](std::optional<uint8_t> x) { return x ? static_cast<int>(*x) : -1; });
  registry.add(of_pair, [](const std::pair<int8_t, std::string>& x) { return x.first + std::stoi(x.second); });
  registry.add(of_tuple, [](const auto& x) {
    if (!x) return -1;
    const auto& [first, second] = *x;
    return first.value_or(0) + second.first + second.second;
  });
  registry.add(of_tuple_of_one, [](std::tuple<int8_t> x) { return static_cast<int>(std::get<0>(x)); });
  registry.add(of_complex, [](std::complex<double> x) { return x.real() + x.imag(); });
  registry.add_type<Counter>("Counter").constructor<>().method("add", &Counter::add);
  return registry;
}

template <class Act>
void expect_refused(const Act& act, const std::vector<std::string>& names) {
  try {
    act();
    FAIL() << "no error";
  } catch (const InvalidArgumentError& error) {
    for (const std::string& name : names)
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << name << " in: " << error.what();
  }
}

TEST(Arguments, N10_AnIntegerThatItsParameterCannotHoldThrowsAtTheCall) {
  testing::Cluster cluster(2, make_registry());
  const Peer peer = cluster[0].peer(1);
  EXPECT_EQ(peer.call(of_small, 127).get(), 127);
  EXPECT_EQ(peer.call(of_small, int64_t{-128}).get(), -128);
  expect_refused([&] { (void)peer.call(of_small, 128); }, {"of_small", "argument 1", "128", "int8"});
  expect_refused([&] { (void)peer.call(of_small, uint64_t{1} << 63U); }, {"of_small", "9223372036854775808", "int8"});
  expect_refused([&] { (void)peer.call(of_unsigned, -1); }, {"of_unsigned", "-1", "uint64"});
  EXPECT_EQ(peer.call(of_unsigned, 5).get(), 5U);
  EXPECT_TRUE(peer.call(of_bool, 1).get());
  expect_refused([&] { (void)peer.call(of_bool, 2); }, {"of_bool", "2", "bool"});
  expect_refused([&] { (void)peer.call(of_char, "text", 1000); }, {"of_char", "argument 2", "1000", "char"});
  EXPECT_EQ(peer.call(of_double, 3).get(), 3.0);
  EXPECT_EQ(peer.call(of_small, green).get(), 1);
  EXPECT_EQ(peer.call(of_optional, 255).get(), 255);
  EXPECT_EQ(peer.call(of_optional, std::nullopt).get(), -1);
  EXPECT_EQ(peer.call(of_optional, std::optional<int>(7)).get(), 7);
  expect_refused([&] { (void)peer.call(of_optional, 256); }, {"of_optional", "256", "uint8"});
  expect_refused([&] { (void)peer.call(of_optional, std::optional<int>(-1)); }, {"of_optional", "-1", "uint8"});
}

TEST(Arguments, N10_AnIntegerInsideAPairOrATupleThatCannotBeHeldThrowsAtTheCall) {
  testing::Cluster cluster(2, make_registry());
  const Peer peer = cluster[0].peer(1);
  EXPECT_EQ(peer.call(of_pair, std::pair(-128, "28")).get(), -100);
  expect_refused([&] { (void)peer.call(of_pair, std::pair(128, "0")); }, {"of_pair", "argument 1", "128", "int8"});
  EXPECT_EQ(peer.call(of_tuple, std::tuple(255, std::pair(1, 65535))).get(), 65791);
  EXPECT_EQ(peer.call(of_tuple, std::pair(std::optional<int>(), std::pair(1, green))).get(), 2);
  EXPECT_EQ(peer.call(of_tuple, std::nullopt).get(), -1);
  EXPECT_EQ(peer.call(of_tuple, std::optional<std::pair<int, Pair<int>>>()).get(), -1);
  expect_refused([&] { (void)peer.call(of_tuple, std::tuple(256, Pair<int>())); }, {"of_tuple", "256", "uint8"});
  expect_refused([&] { (void)peer.call(of_tuple, std::tuple(std::optional<int>(-1), Pair<int>())); },
                 {"of_tuple", "-1", "uint8"});
  expect_refused([&] { (void)peer.call(of_tuple, std::optional(std::tuple(1, std::pair(1, 65536)))); },
                 {"of_tuple", "65536", "uint16"});
  EXPECT_EQ(peer.call(of_tuple_of_one, 5).get(), 5);
  expect_refused([&] { (void)peer.call(of_tuple_of_one, 200); }, {"of_tuple_of_one", "200", "int8"});
  EXPECT_EQ(peer.call(of_complex, 3).get(), 3.0);
  EXPECT_EQ(peer.call(of_complex, std::complex<float>(1, 2)).get(), 3.0);
}

TEST(Arguments, N10_TheSameHoldsForMethodsAndForResultsThatStay) {
  testing::Cluster cluster(2, make_registry());
  const Peer peer = cluster[0].peer(1);
  const RRef<Counter> counter = peer.make<Counter>();
  EXPECT_EQ(counter.call(&Counter::add, 100).get(), 100);
  expect_refused([&] { (void)counter.call(&Counter::add, 200); }, {"Counter.add", "argument 1", "200", "int8"});
  expect_refused([&] { (void)counter.remote(&Counter::add, 200); }, {"Counter.add", "200"});
  expect_refused([&] { (void)peer.remote(of_small, 200); }, {"of_small", "200"});
  EXPECT_EQ(peer.remote(of_small, 5).to_here(), 5);
}

}  // namespace
}  // namespace gradwire
