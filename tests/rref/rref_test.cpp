// References as users see them: made, used, passed around, deleted.
#include "gradwire/rref/rref.h"

#include <atomic>
#include <set>
#include <thread>
#include <unordered_set>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using std::chrono::milliseconds;
using testing::Cluster;
using testing::eventually;
using ::testing::HasSubstr;

constexpr Function<at::Tensor(at::Tensor, double)> scale{"scale"};
constexpr Function<at::Tensor(RRef<at::Tensor>)> fetch_there{"fetch_there"};
constexpr Function<RRef<at::Tensor>(RRef<at::Tensor>)> give_back{"give_back"};
constexpr Function<RRef<at::Tensor>(std::string, at::Tensor)> make_at{"make_at"};
constexpr Function<RRef<at::Tensor>(double)> share_one{"share_one"};
constexpr Function<int64_t(int64_t)> fails{"fails"};
constexpr Function<int64_t(int64_t)> slow{"slow"};
constexpr Function<at::Tensor(RRef<at::Tensor>, int64_t)> around{"around"};
constexpr Function<void(RRef<at::Tensor>)> keep{"keep"};
constexpr Function<RRef<at::Tensor>(RRef<at::Tensor>)> give_back_late{"give_back_late"};
constexpr Function<void()> forget{"forget"};
constexpr Function<void()> nothing{"nothing"};

// Takes its time to be made from.
struct SlowNumber {
  int64_t milliseconds = 200;
};

// Counts those that live, on all workers of this process.
struct Counted {
  Counted() { ++alive; }
  explicit Counted(const SlowNumber& slowly) {
    ++alive;
    std::this_thread::sleep_for(milliseconds(slowly.milliseconds));
  }
  explicit Counted(int64_t start) : value(start) { ++alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --alive; }
  int64_t add(int64_t more) { return value += more; }
  int64_t get() const noexcept { return value; }
  void refuse() const { throw std::runtime_error("not today"); }
  int64_t value = 0;
  static inline std::atomic<int> alive = 0;
};

struct Base {
  virtual ~Base() = default;
  virtual std::string name() const { return "base"; }
  int64_t of_base(int64_t x) { return x + 1; }
};
struct Derived : Base {
  Derived(std::string given, double x) : text(std::move(given)), number(x) {}
  explicit Derived(const std::vector<int64_t>& many) : text("many"), number(static_cast<double>(many.size())) {}
  std::string name() const override { return text; }
  double get() const { return number; }
  Future<at::Tensor> later(at::Tensor x) { return Worker::current().self().call(scale, std::move(x), number); }
  Task<at::Tensor> coroutine(const at::Tensor& x) {
    co_return co_await Worker::current().self().call(scale, x, number);
  }
  std::string text;
  double number;
};

std::mutex kept_mutex;
std::vector<RRef<at::Tensor>> kept;

Registry make_registry() {
  Registry registry;
  registry.add(scale, [](const at::Tensor& x, double by) { return x * by; });
  registry.add(fetch_there, [](const RRef<at::Tensor>& r) { return r.fetch().get(); });
  registry.add(give_back, [](RRef<at::Tensor> r) { return r; });
  registry.add(give_back_late, [](RRef<at::Tensor> r) {
    std::this_thread::sleep_for(milliseconds(50));
    return r;
  });
  registry.add(make_at, [](const std::string& where, const at::Tensor& x) {
    return Worker::current().peer(where).remote(scale, x, 2.0);
  });
  registry.add(share_one, [](double x) { return Worker::current().share(at::full({2}, x)); });
  registry.add(fails, [](int64_t x) -> int64_t { throw std::runtime_error("cannot make " + std::to_string(x)); });
  registry.add(slow, [](int64_t ms) {
    std::this_thread::sleep_for(milliseconds(ms));
    return ms;
  });
  registry.add(around, [](const RRef<at::Tensor>& r, int64_t hops) -> at::Tensor {
    if (hops == 0) return r.fetch().get();
    Worker& here = Worker::current();
    return here.peer((here.rank() + 1) % 3).call(around, r, hops - 1).get();
  });
  registry.add(keep, [](RRef<at::Tensor> r) {
    const std::scoped_lock lock(kept_mutex);
    kept.push_back(std::move(r));
  });
  registry.add(forget, [] {
    const std::scoped_lock lock(kept_mutex);
    kept.clear();
  });
  registry.add(nothing, [] {});
  registry.add_type<Counted>("Counted")
      .constructor<>()
      .constructor<int64_t>()
      .constructor<SlowNumber>()
      .method("add", &Counted::add)
      .method("get", &Counted::get)
      .method("refuse", &Counted::refuse);
  registry.add_type<Derived>("Derived")
      .constructor<std::string, double>()
      .constructor<std::vector<int64_t>>()
      .method("name", &Derived::name)
      .method("get", &Derived::get)
      .method("of_base", &Derived::of_base)
      .method("later", &Derived::later)
      .method("coroutine", &Derived::coroutine);
  registry.add_type<torch::nn::Linear>("Linear").constructor<int64_t, int64_t>().method(
      "forward", &torch::nn::LinearImpl::forward);
  registry.allow_operators("aten::*");
  return registry;
}

bool nothing_left(Cluster& cluster, int size) {
  return eventually([&] {
    for (int i = 0; i < size; ++i)
      if (!cluster[i].debug().empty()) return false;
    return true;
  });
}

void print(Cluster& cluster, int size) {
  for (int i = 0; i < size; ++i) std::cout << cluster[i].name() << ":\n" << cluster[i].debug();
}

#define EXPECT_NOTHING_LEFT(cluster, size) EXPECT_TRUE(nothing_left(cluster, size)) << (print(cluster, size), "")

class RRefTest : public ::testing::Test {
 protected:
  RRefTest() : cluster(3, make_registry()) {}
  ~RRefTest() override {
    const std::scoped_lock lock(kept_mutex);
    kept.clear();
  }
  Cluster cluster;
};

TEST_F(RRefTest, OfACallIsFetchedBeforeAndAfterItsValueIsThere) {
  for (const char* to : {"worker1", "worker0"}) {
    const RRef<at::Tensor> r = cluster[0].peer(to).remote(scale, at::ones({2}), 3.0);
    EXPECT_TRUE(r.fetch().get().equal(at::full({2}, 3.0)));
    EXPECT_TRUE(r.to_here().equal(at::full({2}, 3.0)));
    EXPECT_EQ(r.owner().name(), to);
    EXPECT_EQ(r.is_owner(), std::string(to) == "worker0");
    EXPECT_TRUE(eventually([&] { return r.confirmed(); }));
    const RRef<int64_t> late = cluster[0].peer(to).remote(slow, 30);
    EXPECT_EQ(late.fetch().get(), 30);
  }
  EXPECT_NOTHING_LEFT(cluster, 3);
}

TEST_F(RRefTest, ByNameAndOfVoid) {
  const auto r = cluster[0].peer(1).remote<at::Tensor>("scale", at::ones({1}), 2.0);
  EXPECT_EQ(r.to_here().item<double>(), 2.0);
  const RRef<void> done = cluster[0].peer(1).remote(nothing);
  done.fetch().get();
  EXPECT_THROW(cluster[0].peer(1).remote<int64_t>("scale", at::ones({1}), 2.0).fetch().get(), InvalidArgumentError);
  try {
    cluster[0].peer(1).remote<int64_t>("unknown").to_here();
    FAIL();
  } catch (const NotFoundError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no function \"unknown\" is registered there; there are: "));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("RRef.fetch")));
  }
}

TEST_F(RRefTest, OfAFunctionThatThrowsThrowsItsErrorOnUse) {
  const RRef<int64_t> r = cluster[0].peer(1).remote(fails, 7);
  for (int i = 0; i < 2; ++i) {
    try {
      r.to_here();
      FAIL();
    } catch (const RemoteError& error) {
      EXPECT_THAT(error.what(), HasSubstr("\"fails\" failed at worker1: std::runtime_error: cannot make 7"));
      EXPECT_EQ(error.chain(), std::vector<std::string>{"worker1"});
    }
  }
}

TEST_F(RRefTest, OfAnObjectCallsItsMethods) {
  {
    const RRef<Counted> counter = cluster[0].peer(1).make<Counted>(5);
    EXPECT_EQ(counter.call(&Counted::add, 2).get(), 7);
    EXPECT_EQ(counter.call(&Counted::get).get(), 7);
    EXPECT_EQ(counter.remote(&Counted::add, 3).to_here(), 10);
    EXPECT_THROW(counter.call(&Counted::refuse).get(), RemoteError);
    EXPECT_EQ(Counted::alive, 1);
    EXPECT_THROW(counter.local(), InvalidArgumentError);
    const RRef<Counted> own = cluster[0].self().make<Counted>();
    EXPECT_EQ(own.local()->get(), 0);
    EXPECT_EQ(own.call(&Counted::add, 4).get(), 4);
    EXPECT_EQ(own.local()->get(), 4);
  }
  EXPECT_NOTHING_LEFT(cluster, 3);
  EXPECT_TRUE(eventually([] { return Counted::alive == 0; }));
}

TEST_F(RRefTest, ChoosesTheConstructorAndConvertsNumbers) {
  EXPECT_EQ(cluster[0].peer(1).make<Derived>("x", 2).call(&Derived::get).get(), 2.0);
  EXPECT_EQ(cluster[0].peer(1).make<Derived>("x", 2.5F).call(&Derived::get).get(), 2.5);
  EXPECT_EQ(cluster[0].peer(1).make<Derived>(std::vector<int64_t>{1, 2}).call(&Derived::get).get(), 2.0);
  const RRef<Derived> wrong = cluster[0].peer(1).make<Derived>(1, 2, 3);
  try {
    wrong.call(&Derived::get).get();
    FAIL();
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a Derived cannot be made from (int64, int64, int64); there are: "
                                        "Derived(string, double), Derived(vector<int64>)"));
  }
}

TEST_F(RRefTest, CallsMethodsOfBasesVirtualOnesFuturesAndTasks) {
  const RRef<Derived> object = cluster[0].peer(1).make<Derived>("derived", 3.0);
  EXPECT_EQ(object.call(&Derived::name).get(), "derived");
  EXPECT_EQ(object.call(&Derived::of_base, 4).get(), 5);
  EXPECT_EQ(object.call(&Derived::later, at::ones({1})).get().item<double>(), 3.0);
  EXPECT_EQ(object.call(&Derived::coroutine, at::ones({1})).get().item<double>(), 3.0);
  EXPECT_EQ(object.remote(&Derived::coroutine, at::ones({1})).to_here().item<double>(), 3.0);
  try {
    static_cast<void>(object.call(&Base::name));
    FAIL();
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("this method of Derived is not registered here"));
    EXPECT_THAT(error.what(), HasSubstr("Derived.of_base"));
  }
}

TEST_F(RRefTest, OfATorchModuleHolderMakesTheImplementation) {
  const auto linear = cluster[0].peer(1).make<torch::nn::Linear>(3, 2);
  EXPECT_EQ(linear.call(&torch::nn::LinearImpl::forward, at::ones({4, 3})).get().sizes(), at::IntArrayRef({4, 2}));
  const auto own = cluster[0].share(torch::nn::Linear(3, 2));
  EXPECT_EQ(own.local()->options.in_features(), 3);
}

TEST_F(RRefTest, OfAnUnregisteredTypeIsAnErrorInWords) {
  struct Unknown {
    int64_t get() { return 1; }
  };
  try {
    cluster[0].peer(1).make<Unknown>();
    FAIL();
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the type Unknown is not registered here: registry.add_type<Unknown>"));
    EXPECT_THAT(error.what(), HasSubstr("Counted"));
  }
}

TEST_F(RRefTest, OfAnotherTypeThanItIsUsedAsIsAnErrorNotUndefinedBehaviour) {
  const RRef<at::Tensor> tensor = cluster[0].peer(1).remote(scale, at::ones({1}), 1.0);
  const RRef<Counted> lie(tensor.reference());
  EXPECT_THROW(lie.call(&Counted::get).get(), InvalidArgumentError);
  const RRef<int64_t> another(tensor.reference());
  try {
    another.to_here();
    FAIL();
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("refers to a Tensor, and was fetched as a int64"));
  }
  const RRef<at::Tensor> own = cluster[0].share(at::ones({1}));
  EXPECT_THROW(RRef<int64_t>(own.reference()).local(), InvalidArgumentError);
}

TEST_F(RRefTest, SharedByItsOwnerGivesTheSameObjectLocally) {
  auto object = std::make_shared<Counted>(3);
  {
    const RRef<Counted> r = cluster[0].share(object);
    EXPECT_EQ(r.local(), object);
    EXPECT_TRUE(r.is_owner() && r.confirmed());
  }
  EXPECT_NOTHING_LEFT(cluster, 3);
  EXPECT_TRUE(eventually([&] { return object.use_count() == 1; }));
  const at::Tensor x = at::ones({2});
  EXPECT_EQ(cluster[0].share(x).local().data_ptr(), x.data_ptr());
}

// Owner -> user, user -> owner, user -> user, to oneself, and back.
TEST_F(RRefTest, GoesToAndFroBetweenOwnersAndUsers) {
  {
    const RRef<at::Tensor> own = cluster[0].share(at::full({2}, 4.0));
    for (int to : {0, 1, 2}) {
      EXPECT_TRUE(cluster[0].peer(to).call(fetch_there, own).get().equal(at::full({2}, 4.0))) << to;
      EXPECT_EQ(cluster[0].peer(to).call(give_back, own).get(), own);
    }
    const RRef<at::Tensor> there = cluster[0].peer(1).remote(scale, at::ones({2}), 5.0);
    for (int to : {0, 1, 2}) {
      EXPECT_TRUE(cluster[0].peer(to).call(fetch_there, there).get().equal(at::full({2}, 5.0))) << to;
      EXPECT_EQ(cluster[0].peer(to).call(give_back, there).get(), there);
    }
    const RRef<at::Tensor> returned = cluster[0].peer(1).call(share_one, 6.0).get();
    EXPECT_EQ(returned.owner().name(), "worker1");
    EXPECT_TRUE(returned.to_here().equal(at::full({2}, 6.0)));
    const RRef<at::Tensor> third = cluster[0].peer(1).call(make_at, "worker2", at::ones({2})).get();
    EXPECT_EQ(third.owner().name(), "worker2");
    EXPECT_TRUE(third.to_here().equal(at::full({2}, 2.0)));
    const RRef<at::Tensor> mine = cluster[0].peer(1).call(make_at, "worker0", at::ones({2})).get();
    EXPECT_TRUE(mine.is_owner());
    EXPECT_TRUE(mine.local().equal(at::full({2}, 2.0)));
  }
  EXPECT_NOTHING_LEFT(cluster, 3);
}

TEST_F(RRefTest, IsPassedToRemoteCallsAndNested) {
  {
    const RRef<at::Tensor> own = cluster[0].share(at::full({2}, 4.0));
    const RRef<at::Tensor> copy = cluster[0].peer(1).remote(fetch_there, own);
    EXPECT_TRUE(copy.to_here().equal(at::full({2}, 4.0)));
    const RRef<RRef<at::Tensor>> nested = cluster[0].peer(1).remote(make_at, "worker2", at::ones({2}));
    const RRef<at::Tensor> inner = nested.to_here();
    EXPECT_EQ(inner.owner().name(), "worker2");
    EXPECT_TRUE(inner.to_here().equal(at::full({2}, 2.0)));
    const RRef<RRef<at::Tensor>> of_own = cluster[0].share(own);
    EXPECT_EQ(*of_own.local(), own);
  }
  EXPECT_NOTHING_LEFT(cluster, 3);
}

TEST_F(RRefTest, IsPassedOnBeforeItsValueExists) {
  {
    Registry registry;
    const RRef<int64_t> late = cluster[0].peer(1).remote(slow, 50);
    const RRef<at::Tensor> chained = cluster[0].peer(1).remote(scale, at::ones({2}), 2.0);
    EXPECT_TRUE(cluster[0].peer(2).call(fetch_there, chained).get().equal(at::full({2}, 2.0)));
    EXPECT_EQ(late.to_here(), 50);
  }
  EXPECT_NOTHING_LEFT(cluster, 3);
}

TEST_F(RRefTest, GoesAroundFiftyHops) {
  {
    const RRef<at::Tensor> r = cluster[0].peer(1).remote(scale, at::ones({2}), 9.0);
    EXPECT_TRUE(cluster[0].peer(1).call(around, r, 50).get().equal(at::full({2}, 9.0)));
  }
  EXPECT_NOTHING_LEFT(cluster, 3);
}

TEST_F(RRefTest, R2_KeptElsewhereOutlivesItsCreatorAndIsDeletedWithItsLastHolder) {
  {
    const RRef<at::Tensor> r = cluster[0].peer(1).remote(scale, at::ones({2}), 9.0);
    cluster[0].peer(2).call(keep, r).get();
  }
  EXPECT_TRUE(eventually([&] { return cluster[0].debug().empty(); }));
  EXPECT_TRUE(eventually([&] {
    const ReferenceReport report = cluster[1].debug();
    return report.owned.size() == 1 && report.owned[0].holders == std::vector<std::string>{"worker2"} &&
           report.owned[0].type == "Tensor";
  }));
  EXPECT_EQ(cluster[1].debug().owned[0].creator, "worker0");
  {
    const std::scoped_lock lock(kept_mutex);
    EXPECT_TRUE(kept.at(0).to_here().equal(at::full({2}, 9.0)));
  }
  cluster[0].peer(2).call(forget).get();
  EXPECT_NOTHING_LEFT(cluster, 3);
}

TEST_F(RRefTest, IsEqualHashedAndPrintedByItsId) {
  const RRef<at::Tensor> a = cluster[0].share(at::ones({1}));
  const RRef<at::Tensor> b = cluster[0].share(at::ones({1}));
  const RRef<at::Tensor> same = a;  // NOLINT(performance-unnecessary-copy-initialization): a copy is equal
  EXPECT_EQ(a, same);
  EXPECT_NE(a, b);
  EXPECT_EQ((std::unordered_set<RRef<at::Tensor>>{a, b, same}.size()), 2U);
  EXPECT_EQ(to_string(a), "RRef<Tensor> " + to_string(a.id()) + " at worker0");
}

TEST_F(RRefTest, TravelsInContainersStructsAndIValues) {
  {
    const RRef<at::Tensor> r = cluster[0].share(at::full({1}, 3.0));
    wire::Payload payload = wire::encode(std::vector<RRef<at::Tensor>>{r, r}, std::optional<RRef<at::Tensor>>(r));
    EXPECT_EQ(payload.riders.size(), 3U);
    const c10::IValue value = r;
    ASSERT_TRUE(value.isRRef());
    EXPECT_EQ(value.toRRef()->ownerName(), "worker0");
    EXPECT_TRUE(value.toRRef()->isOwner());
    EXPECT_EQ(RRef<at::Tensor>::from(value), r);
    EXPECT_THROW(RRef<at::Tensor>::from(c10::IValue(3)), InvalidArgumentError);
  }
  EXPECT_NOTHING_LEFT(cluster, 3);
}

TEST_F(RRefTest, OfAnOperatorIsAnIValue) {
  const RRef<c10::IValue> sum = cluster[0].peer(1).remote_op("aten::add.Tensor", at::ones({2}), at::ones({2}), 1);
  EXPECT_TRUE(sum.to_here().toTensor().equal(at::full({2}, 2.0)));
  EXPECT_THROW(cluster[0].peer(1).remote_op("aten::unheard_of").to_here(), NotFoundError);
}

TEST_F(RRefTest, C15_OfATimedOutCreationFailsWithTheTimeout) {
  const RRef<int64_t> r = cluster[0].peer(1).with_timeout(milliseconds(20)).remote(slow, 200);
  EXPECT_TRUE(eventually([&] { return r.reference()->failure() != nullptr; }));
  EXPECT_THROW(r.to_here(), TimeoutError);
  EXPECT_THROW(r.with_timeout(milliseconds(1000)).to_here(), TimeoutError);
  EXPECT_THROW(static_cast<void>(wire::encode(r)), TimeoutError);
  EXPECT_THROW(static_cast<void>(wire::encode(r.ivalue())), TimeoutError);
  const RRef<Counted> object = cluster[0].peer(1).with_timeout(milliseconds(20)).make<Counted>(SlowNumber{});
  EXPECT_TRUE(eventually([&] { return object.reference()->failure() != nullptr; }));
  EXPECT_THROW(object.call(&Counted::get).get(), TimeoutError);
  EXPECT_THROW(object.remote(&Counted::get), TimeoutError);
}

// What comes with a request that is refused is taken, and let go.
TEST_F(RRefTest, RG_InARefusedRequestIsTakenAndLetGo) {
  {
    const RRef<at::Tensor> r = cluster[0].peer(1).remote(scale, at::ones({2}), 2.0);
    EXPECT_THROW(cluster[0].peer(2).call<int64_t>("no_such_function", r).get(), NotFoundError);
    EXPECT_THROW(cluster[0].peer(1).call<int64_t>("no_such_function", r).get(), NotFoundError);
    EXPECT_THROW(cluster[0].peer(2).call<int64_t>("keep", r).get(), InvalidArgumentError) << "another signature";
  }
  EXPECT_NOTHING_LEFT(cluster, 3);
}

TEST_F(RRefTest, Q3_RG_InALateReplyIsLetGo) {
  {
    const RRef<at::Tensor> r = cluster[0].peer(1).remote(scale, at::ones({2}), 2.0);
    EXPECT_THROW(cluster[0].peer(2).with_timeout(milliseconds(5)).call(give_back_late, r).get(), TimeoutError);
    EXPECT_THROW(cluster[0].peer(1).with_timeout(milliseconds(5)).call(give_back_late, r).get(), TimeoutError);
  }
  EXPECT_NOTHING_LEFT(cluster, 3);
}

TEST_F(RRefTest, AFetchHasATimeLimitOfItsOwn) {
  const RRef<int64_t> r = cluster[0].peer(1).remote(slow, 200);
  EXPECT_THROW(r.with_timeout(milliseconds(20)).to_here(), TimeoutError);
  EXPECT_EQ(r.to_here(), 200);
}

TEST_F(RRefTest, OfAnotherWorkerOfThisProcessCannotBeSent) {
  const RRef<at::Tensor> r = cluster[0].share(at::ones({1}));
  EXPECT_THROW((void)cluster[1].peer(2).call(fetch_there, r), InvalidArgumentError);
}

// RQ: what a worker sends to itself holds its references until it is handled.
TEST_F(RRefTest, RQ_InACallToOneselfIsKeptUntilTheCallIsHandled) {
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        const Future<at::Tensor> call =
            cluster[0].self().call(fetch_there, cluster[0].share(at::full({1}, static_cast<double>(j))));
        try {
          if (call.get().item<double>() != j) ++wrong;
        } catch (const Error& error) {
          ++wrong;
          ADD_FAILURE() << error.what();
        }
      }
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_NOTHING_LEFT(cluster, 3);
}

TEST_F(RRefTest, IsUsedFromManyThreadsAtOnce) {
  {
    const RRef<Counted> counter = cluster[0].peer(1).make<Counted>();
    std::vector<std::jthread> threads;
    std::atomic<int> wrong = 0;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int j = 0; j < 50; ++j) {
          const RRef<at::Tensor> r = cluster[0].peer(1 + j % 2).remote(scale, at::ones({2}), j);
          const RRef<Counted> copy = counter;  // NOLINT(performance-unnecessary-copy-initialization): by all at once
          if (copy.call(&Counted::get).get() != 0) ++wrong;
          if (!cluster[0].peer(2 - j % 2).call(fetch_there, r).get().equal(at::full({2}, j))) ++wrong;
        }
      });
    threads.clear();
    EXPECT_EQ(wrong, 0);
  }
  EXPECT_NOTHING_LEFT(cluster, 3);
}

}  // namespace
}  // namespace gradwire
