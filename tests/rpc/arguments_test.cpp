// What may be given for a parameter, and what is refused: at compile time, or by value at the call (N10).
#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"

namespace gradwire {
namespace {

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

constexpr Function<int(int8_t)> of_small{"of_small"};
constexpr Function<uint64_t(uint64_t)> of_unsigned{"of_unsigned"};
constexpr Function<bool(bool)> of_bool{"of_bool"};
constexpr Function<char(std::string, char)> of_char{"of_char"};
constexpr Function<double(double)> of_double{"of_double"};
constexpr Function<int(std::optional<uint8_t>)> of_optional{"of_optional"};

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
