// What goes wrong, and what the caller is told.
#include <thread>

#include <ATen/ops/_sparse_csr_tensor_unsafe.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct OwnError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Money {
  explicit Money(int64_t given) : cents(given) {}
  int64_t cents;
};

constexpr Function<at::Tensor(at::Tensor, double)> scale{"scale"};
constexpr Function<int(std::vector<std::string>)> fail_through{"fail_through"};
constexpr Function<int()> throw_int{"throw_int"};
constexpr Function<int()> torch_error{"torch_error"};
constexpr Function<int()> not_found{"not_found"};
constexpr Function<int(Money)> pay{"pay"};
constexpr Function<std::vector<at::Tensor>(at::Tensor)> kinds{"kinds"};
constexpr Function<at::Tensor()> unsorted_rows{"unsorted_rows"};

Registry make_registry() {
  Registry registry;
  registry.add(scale, [](const at::Tensor& x, double by) { return x.mul(by); });
  registry.add(fail_through, [](std::vector<std::string> way) -> int {
    if (way.empty()) throw OwnError("no luck");
    const std::string next = way.front();
    way.erase(way.begin());
    return Worker::current().peer(next).call(fail_through, way).get();
  });
  registry.add(throw_int, []() -> int { throw 42; });
  registry.add(torch_error, [] { return at::ones({2}).add(at::ones({3})).item<int>(); });
  registry.add(not_found, [] { return Worker::current().peer("nobody").call<int>("x").get(); });
  registry.add(pay, [](const Money& money) { return static_cast<int>(money.cents); });
  registry.add(unsorted_rows, [] {
    const auto indices = [](const std::vector<int64_t>& values) { return at::tensor(values); };
    return at::_sparse_csr_tensor_unsafe(indices({0, 2}), indices({1, 0}), at::ones({2}), {1, 2},
                                         at::TensorOptions().layout(at::kSparseCsr));
  });
  registry.add(kinds, [](const at::Tensor& x) {
    return std::vector<at::Tensor>{x, at::Tensor(), x.t(), x.to_sparse(), x.slice(0, 0, 1)};
  });
  return registry;
}

template <class E, class Act>
E caught(const Act& act) {
  try {
    act();
  } catch (const E& error) {
    return error;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    throw;
  }
  throw std::logic_error("no error");
}

}  // namespace
}  // namespace gradwire

template <>
struct gradwire::Codec<gradwire::Money> {
  static void encode(wire::Encoder& encoder, const Money& money) { encoder.put(money.cents); }
  static Money decode(wire::Decoder& decoder) {
    const auto cents = decoder.take<int64_t>();
    if (cents < 0) throw wire::MalformedError("money below zero");
    return Money(cents);
  }
  static std::string signature() { return "Money"; }
};

namespace gradwire {
namespace {

TEST(Error, OfAFunctionKeepsTypeTextAndTheChainOfWorkers) {
  Cluster cluster(3, make_registry());
  const auto error = caught<RemoteError>(
      [&] { cluster[0].peer(1).call(fail_through, std::vector<std::string>{"worker2", "worker0", "worker1"}).get(); });
  EXPECT_STREQ(error.what(),
               "\"fail_through\" failed at worker1: \"fail_through\" failed at worker2: \"fail_through\" failed at "
               "worker0: \"fail_through\" failed at worker1: gradwire::(anonymous namespace)::OwnError: no luck");
  EXPECT_THAT(error.chain(), ElementsAre("worker1", "worker0", "worker2", "worker1"));
  EXPECT_THAT(error.origin_type(), HasSubstr("OwnError"));
  EXPECT_EQ(error.origin_code(), ErrorCode::remote);
  EXPECT_EQ(error.worker(), "worker1");
}

TEST(Error, OfAnyTypeArrives) {
  Cluster cluster(2, make_registry());
  EXPECT_EQ(caught<RemoteError>([&] { cluster[0].peer(1).call(throw_int).get(); }).origin_type(), "int");
  const auto torch = caught<RemoteError>([&] { cluster[0].peer(1).call(torch_error).get(); });
  EXPECT_EQ(torch.origin_type(), "c10::Error");
  EXPECT_THAT(torch.what(), HasSubstr("size of tensor a (2)"));
  EXPECT_EQ(std::string(torch.what()).find("frame #"), std::string::npos) << "a backtrace of no use";
}

TEST(Error, ThrownByAFunctionIsRemoteAlsoIfItIsOneOfGradwire) {
  Cluster cluster(2, make_registry());
  const auto error = caught<RemoteError>([&] { cluster[0].peer(1).call(not_found).get(); });
  EXPECT_EQ(error.origin_code(), ErrorCode::not_found);
  EXPECT_EQ(error.origin_type(), "gradwire::NotFoundError");
}

TEST(Error, ForAnUnknownFunctionListsThoseThereAre) {
  Cluster cluster(2, make_registry());
  const auto error = caught<NotFoundError>([&] { cluster[0].peer(1).call<int>("scael", 1).get(); });
  EXPECT_THAT(error.what(), HasSubstr("worker1 refuses the call of \"scael\": no function \"scael\" is registered"));
  EXPECT_THAT(error.what(), HasSubstr("fail_through, kinds, not_found, pay, scale"));
  EXPECT_EQ(error.worker(), "worker1");
}

TEST(Error, ForAWrongSignatureShowsBoth) {
  Cluster cluster(2, make_registry());
  Peer peer = cluster[0].peer(1);
  EXPECT_TRUE(peer.call<at::Tensor>("scale", at::ones({2}), 3.0).get().equal(at::full({2}, 3.0)));
  const auto error = caught<InvalidArgumentError>([&] { peer.call<at::Tensor>("scale", at::ones({2}), 3).get(); });
  EXPECT_THAT(error.what(), HasSubstr("(Tensor, double) -> Tensor there, and was called as (Tensor, int32) -> Tensor"));
  EXPECT_THROW(peer.call<int>("scale", at::ones({2}), 3.0).get(), InvalidArgumentError);
}

TEST(Error, ForArgumentsThatDoNotDecodeIsTheCallersAndTheWorkerLives) {
  Cluster cluster(2, make_registry());
  Peer peer = cluster[0].peer(1);
  EXPECT_EQ(peer.call(pay, Money(5)).get(), 5);
  const auto error = caught<InvalidArgumentError>([&] { peer.call(pay, Money(-5)).get(); });
  EXPECT_THAT(error.what(), HasSubstr("money below zero"));
  EXPECT_EQ(peer.call(pay, Money(6)).get(), 6);
}

TEST(Error, ForAnArgumentThatCannotTravelIsThrownAtTheCall) {
  Cluster cluster(2, make_registry());
  Peer peer = cluster[0].peer(1);
  const at::Tensor meta = at::ones({2}, at::TensorOptions().device(at::kMeta));
  EXPECT_THROW((void)peer.call(scale, meta, 1.0), InvalidArgumentError);
  EXPECT_THROW((void)cluster[0].self().call(scale, meta, 1.0), InvalidArgumentError);
  EXPECT_TRUE(peer.call(scale, at::ones({2}), 1.0).get().equal(at::ones({2})));
}

TEST(Registry, RefusesANameTwice) {
  Registry registry = make_registry();
  EXPECT_THROW(registry.add(scale, [](const at::Tensor& x, double) { return x; }), InvalidArgumentError);
}

TEST(Self, CallsTakeTheSamePathWithoutALink) {
  Cluster cluster(1, make_registry());
  Peer self = cluster[0].self();
  const at::Tensor x = at::ones({2, 3});
  auto sent = self.call(scale, x, 2.0);
  x.fill_(7);  // a value is what it was at the call
  EXPECT_TRUE(sent.get().equal(at::full({2, 3}, 2.0)));
  EXPECT_THROW(self.call(fail_through, std::vector<std::string>{"worker0", "worker0"}).get(), RemoteError);
  const at::Tensor base = at::full({4, 2}, 5.0);
  std::vector<at::Tensor> back = self.call(kinds, base).get();
  EXPECT_TRUE(back[0].equal(base));
  EXPECT_FALSE(back[1].defined());
  EXPECT_TRUE(back[2].equal(base.t()));
  EXPECT_TRUE(back[3].is_sparse() && back[3].to_dense().equal(base));
  EXPECT_EQ(back[4].storage().nbytes(), 8U);  // C13 here too
  std::vector<Future<at::Tensor>> many;
  for (int i = 0; i < 200; ++i) many.push_back(self.call(scale, x, 1.0 * i));
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(many[static_cast<size_t>(i)].get().equal(at::full({2, 3}, 7.0 * i)));
}

TEST(Call, AValueIsWhatItWasAtTheCall) {
  Cluster cluster(2, make_registry());
  cluster.network().cut("worker0", "worker1");
  const at::Tensor small = at::ones({4});
  const at::Tensor large = at::ones({1 << 20});
  auto first = cluster[0].peer(1).call(scale, small, 2.0);
  auto second = cluster[0].peer(1).call(scale, large, 2.0);
  small.fill_(9);
  large.fill_(9);
  cluster.network().heal("worker0", "worker1");
  EXPECT_TRUE(first.get().equal(at::full({4}, 2.0)));
  EXPECT_TRUE(second.get().equal(at::full({1 << 20}, 2.0)));
}

TEST(Call, WaitsForRoomInsteadOfFillingMemory) {
  Cluster cluster(2, make_registry(), {.call_timeout = 60s, .max_outgoing_bytes = 1 << 20});
  Peer peer = cluster[0].peer(1);
  peer.call(scale, at::ones({1}), 1.0).get();
  cluster.network().cut("worker0", "worker1");
  std::atomic<int> begun = 0;
  std::thread caller([&] {
    for (int i = 0; i < 8; ++i) {
      (void)peer.call(scale, at::ones({100'000}), 1.0);
      ++begun;
    }
  });
  ASSERT_TRUE(testing::eventually([&] { return begun >= 2; }));
  // A call with a limit does not wait longer than that for room.
  EXPECT_THROW(peer.with_timeout(20ms).call(scale, at::ones({100'000}), 1.0).get(), TimeoutError);
  EXPECT_LT(begun, 4);
  cluster.network().heal("worker0", "worker1");
  caller.join();
  EXPECT_EQ(begun, 8);
}

TEST(Errors, AResultThatCannotBeUsedNamesItsWorker) {
  Cluster cluster(2, make_registry());
  const auto error = caught<InvalidArgumentError>([&] { cluster[0].peer(1).call(unsorted_rows).get(); });
  EXPECT_EQ(error.worker(), "worker1");
  EXPECT_THAT(error.what(), HasSubstr("what worker1 returned cannot be used"));
}

}  // namespace
}  // namespace gradwire
