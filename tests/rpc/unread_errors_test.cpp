// Errors that nobody asked for are logged (N13).
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "gradwire/gradwire.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/cluster.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::Cluster;
using ::testing::HasSubstr;

constexpr Function<int(int)> twice{"twice"};
constexpr Function<int()> wait_until_cancelled{"wait_until_cancelled"};

Task<int> awaits(Future<int> future) { co_return co_await future; }
Task<int> throws_about(std::string worker) {
  throw NotFoundError("a Task's own", worker);
  co_return 1;
}

class UnreadErrors : public ::testing::Test {
 protected:
  void SetUp() override { FLAGS_caffe2_log_level = 1; }  // warnings
  net::RepeatedLog& log() { return WorkerAccess::core(cluster[0]).runtime()->repeated_log(); }
  // What is logged until so many new kinds were written.
  template <class Act>
  std::string logged(const Act& act, size_t kinds) {
    const size_t before = log().kinds();
    ::testing::internal::CaptureStderr();
    act();
    EXPECT_TRUE(testing::eventually([&] { return log().kinds() >= before + kinds; }));
    return ::testing::internal::GetCapturedStderr();
  }
  Registry make_registry() const {
    Registry registry;
    registry.add(twice, [](int x) { return 2 * x; });
    registry.add(fail, []() -> int { throw std::runtime_error("no luck"); });
    registry.add(fail_otherwise, []() -> int { throw std::domain_error("no luck either"); });
    registry.add(wait_until_cancelled, [] {
      while (!cancelled()) std::this_thread::sleep_for(1ms);
      return 1;
    });
    return registry;
  }
  // The log is the process's: names of an earlier test would count as repeated.
  static std::string fresh(const std::string& name) {
    static int number = 0;
    return name + std::to_string(++number);
  }
  const std::string fail_name = fresh("fail"), fail_otherwise_name = fresh("fail_otherwise");
  const Function<int()> fail{fail_name.c_str()}, fail_otherwise{fail_otherwise_name.c_str()};
  Cluster cluster{2, make_registry()};
  Peer peer = cluster[0].peer(1);
};

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_F(UnreadErrors, N13_AreLoggedOnceForEachFunctionAndPeer) {
  const std::string text = logged(
      [&] {
        for (int i = 0; i < 20; ++i) (void)peer.call(fail);
        for (int i = 0; i < 20; ++i) (void)cluster[0].self().call(fail);
        for (int i = 0; i < 20; ++i) (void)peer.call(fail_otherwise).then([](int x) { return x; });
      },
      3);
  EXPECT_EQ(count(text, "nobody asked"), 3U) << text;
  EXPECT_EQ(count(text, "no luck either"), 1U) << text;
  EXPECT_THAT(text, AllOf(HasSubstr(fail_name + "\" at worker1"), HasSubstr(fail_name + "\" at worker0"),
                          HasSubstr(fail_otherwise_name + "\" at worker1")));
}

TEST_F(UnreadErrors, N13_OfTasksAndContinuationsAreLoggedToo) {
  const std::string text = logged([&] { (void)throws_about(fail_name).start(); }, 1);
  EXPECT_THAT(text, AllOf(HasSubstr("a Task's own"), HasSubstr(fail_name)));
}

TEST_F(UnreadErrors, N13_WhatWasReadOrCancelledOrIsAValueIsNotLogged) {
  const std::string text = logged(
      [&] {
        EXPECT_THROW(peer.call(fail).get(), RemoteError);
        EXPECT_THROW(peer.call(fail).then([](int x) { return x; }).get(), RemoteError);
        EXPECT_THROW(when_all(std::vector{peer.call(fail), peer.call(fail), peer.call(twice, 1)}).get(), RemoteError);
        EXPECT_THROW(awaits(peer.call(fail)).start().get(), RemoteError);
        const auto cancelled_one = peer.call(wait_until_cancelled);
        cancelled_one.cancel();
        (void)peer.call(twice, 1);
        (void)cluster[0].self().call(fail);  // the last, and the only one
      },
      1);
  EXPECT_EQ(count(text, "nobody asked"), 1U) << text;
  EXPECT_THAT(text, HasSubstr(fail_name + "\" at worker0"));
}

}  // namespace
}  // namespace gradwire
