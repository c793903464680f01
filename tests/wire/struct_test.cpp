#include <memory>

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "gradwire/wire/codec.h"

namespace data {

template <class T>
struct Point {
  T x, y;
  bool operator==(const Point&) const = default;
};

}  // namespace data

namespace gradwire::wire {
namespace {

struct Batch {
  at::Tensor x, y;
  int epoch;
};

struct Empty {
  bool operator==(const Empty&) const = default;
};

struct Unchangeable {
  const int number;
  const std::string text;
  bool operator==(const Unchangeable&) const = default;
};

struct WithDefaults {
  int number = 5;
  std::optional<double> maybe = 2.5;
  bool operator==(const WithDefaults&) const = default;
};

struct WithBits {
  int small : 3;
  unsigned flag : 1;
  bool operator==(const WithBits&) const = default;
};

struct Single {
  std::vector<std::string> words;
  bool operator==(const Single&) const = default;
};

struct Nested {
  data::Point<double> point;
  Single single;
  Empty empty;
  std::array<data::Point<int>, 2> corners;
  std::vector<WithDefaults> many;
  bool operator==(const Nested&) const = default;
};

struct Sixteen {
  bool a;
  int8_t b;
  std::string c;
  std::optional<int> d;
  std::vector<bool> e;
  std::array<int, 2> f;
  std::pair<int, int> g;
  std::tuple<int> h;
  std::map<int, int> i;
  std::unordered_map<int, int> j;
  std::variant<int, std::string> k;
  std::complex<float> l;
  std::monostate m;
  Single n;
  double o;
  uint64_t p;
  bool operator==(const Sixteen&) const = default;
};

template <class T>
void expect_round_trip(const T& value) {
  EXPECT_EQ(decode<T>(encode(value)), value) << Codec<T>::signature();
}

TEST(Struct, TravelsFieldByFieldWithoutAMacro) {
  expect_round_trip(Empty());
  expect_round_trip(std::vector<Empty>(3));
  expect_round_trip(Single{{"a", "b"}});
  expect_round_trip(data::Point<float>{1, 2});
  expect_round_trip(WithDefaults{1, {}});
  expect_round_trip(Unchangeable{1, "x"});
  expect_round_trip(WithBits{-2, 1});
  expect_round_trip(Nested{{1, 2}, {{"x"}}, {}, {{{1, 2}, {3, 4}}}, {{}, {7, {}}}});
  expect_round_trip(
      Sixteen{true, -1, "c", 4, {true}, {5, 6}, {7, 8}, 9, {{1, 2}}, {{3, 4}}, "k", {1, 2}, {}, {{"n"}}, 1.5, 16});
}

TEST(Struct, CarriesTensorsBesideTheBytes) {
  Payload payload = encode(Batch{at::ones({2}), at::zeros({3}), 4});
  EXPECT_EQ(payload.tensors.size(), 2);
  EXPECT_EQ(payload.bytes.size(), sizeof(int));
  auto batch = decode<Batch>(std::move(payload));
  EXPECT_EQ(batch.x.size(0), 2);
  EXPECT_EQ(batch.y.size(0), 3);
  EXPECT_EQ(batch.epoch, 4);
}

struct WithIValue {
  c10::IValue value;
  int number;
};

TEST(Struct, MayHoldAnIValue) {
  auto arrived = decode<WithIValue>(encode(WithIValue{"text", 3}));
  EXPECT_EQ(arrived.value.toStringRef(), "text");
  EXPECT_EQ(arrived.number, 3);
}

TEST(Struct, IsSignedByItsNameAndFields) {
  EXPECT_EQ(Codec<Batch>::signature(), "Batch{Tensor,Tensor,int32}");
  EXPECT_EQ(Codec<data::Point<float>>::signature(), "Point{float,float}");
  EXPECT_EQ(Codec<Empty>::signature(), "Empty{}");
  EXPECT_EQ(Codec<Nested>::signature(),
            "Nested{Point{double,double},Single{vector<string>},Empty{},array<Point{int32,int32},2>,"
            "vector<WithDefaults{int32,optional<double>}>}");
  struct Local {
    int number;
  };
  EXPECT_EQ(Codec<Local>::signature(), "Local{int32}");
}

struct WithArray {
  int numbers[3];
  double x;
};
struct WithArrayOfOne {
  int numbers[1];
};
struct WithArrayAtTheEnd {
  double x;
  std::string words[2];
};
struct WithLongArray {
  int numbers[100];
};
struct Derived : Single {
  int number;
};
struct DerivedFromNothing : Empty {
  int number;
};
struct WithReference {
  int number;
  int& other;
};
struct WithPointer {
  int* pointer;
};
struct WithOwner {
  std::unique_ptr<int> owned;
};
struct Inner {
  WithPointer pointer;
};
class Closed {
 public:
  int number = 0;
  int hidden() const { return hidden_; }

 private:
  int hidden_ = 0;
};
struct Seventeen {
  int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q;
};
union Either {
  int a;
  float b;
};

TEST(Struct, ThatIsNotPlainDoesNotTravel) {
  static_assert(!Travels<WithArray>);
  static_assert(!Travels<WithArrayOfOne>);
  static_assert(!Travels<WithArrayAtTheEnd>);
  static_assert(!Travels<WithLongArray>);
  static_assert(!Travels<Derived>);
  static_assert(!Travels<DerivedFromNothing>);
  static_assert(!Travels<WithReference>);
  static_assert(!Travels<WithPointer>);
  static_assert(!Travels<WithOwner>);
  static_assert(!Travels<Inner>);
  static_assert(!Travels<std::vector<Inner>>);
  static_assert(!Travels<Closed>);
  static_assert(!Travels<Seventeen>);
  static_assert(!Travels<Either>);
  EXPECT_EQ(Closed().hidden(), 0);
}

}  // namespace
}  // namespace gradwire::wire
