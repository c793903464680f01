// The threads of a process by themselves. For functions that block see tests/rpc/threads_test.cpp.
#include "gradwire/net/threads.h"

#include <atomic>
#include <memory>
#include <stdexcept>

#include <gtest/gtest.h>

#include "gradwire/net/runtime.h"

#include "tests/support/wait.h"

namespace gradwire::net {
namespace {

using namespace std::chrono_literals;
using testing::eventually;

TEST(Threads, F3_WhatATaskThrowsIsLoggedAndTheThreadGoesOn) {
  const auto runtime = std::make_shared<Runtime>();
  runtime->submit([] { throw std::runtime_error("from a task"); });
  runtime->submit([] { throw 42; });
  runtime->post([] { throw std::runtime_error("from the loop"); });
  runtime->after(1ms, [] { throw 42; });
  std::atomic<int> done = 0;
  runtime->after(5ms, [&] { ++done; });
  runtime->submit([&] { ++done; });
  runtime->post([&] { ++done; });
  EXPECT_TRUE(eventually([&] { return done == 3; }));
}

// How the threads of one test end.
struct Ending {
  std::atomic<bool> slowly = true;
  std::atomic<int> begun = 0;
};

// A user's thread_local object whose destructor takes its time.
struct Lingering {
  ~Lingering() {
    if (!ending) return;
    ++ending->begun;
    eventually([this] { return !ending->slowly; });
  }
  std::shared_ptr<Ending> ending;
};

TEST(Threads, F6_AThreadThatEndsSlowlyHoldsUpNoOther) {
  const auto runtime = std::make_shared<Runtime>();
  const auto ending = std::make_shared<Ending>();
  // So many functions at once, each on a thread of its own because all of them wait.
  const auto occupy = [&](int count, bool linger) {
    auto release = std::make_shared<std::atomic<bool>>(false);
    auto entered = std::make_shared<std::atomic<int>>(0);
    for (int i = 0; i < count; ++i)
      runtime->submit([=] {
        if (linger) {
          thread_local Lingering here;
          here.ending = ending;
        }
        const Threads::Blocked blocked;
        ++*entered;
        eventually([&] { return release->load(); });
      });
    const bool all = eventually([&] { return *entered == count; }, 20s);
    *release = true;
    return all;
  };
  ASSERT_TRUE(occupy(6, true));
  // Threads that no one needs end after some seconds.
  ASSERT_TRUE(eventually([&] { return ending->begun > 0; }));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(occupy(12, false));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s) << "new threads wait for the one that ends";
  ending->slowly = false;
}

}  // namespace
}  // namespace gradwire::net
