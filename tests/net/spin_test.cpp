// The host may be busy with other tests, and then nothing spins: each test holds for both.
#include "gradwire/net/spin.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gradwire/net/waker.h"

#include "tests/support/wait.h"

namespace gradwire::net {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

int looks_in_vain(Spin& spin) {
  int looks = 0;
  EXPECT_FALSE(spin.until([&] {
    ++looks;
    return false;
  }));
  return looks;
}

TEST(Spin, EndsWhenWhatIsWaitedForIsThere) {
  Spin spin;
  for (int i = 0; i < 1000; ++i) {
    int looks = 0;
    const bool came = spin.until([&] { return ++looks == 3; });
    EXPECT_EQ(came, looks == 3);
  }
}

TEST(Spin, PausesAfterOneInVain) {
  Spin spin;
  looks_in_vain(spin);
  EXPECT_EQ(looks_in_vain(spin), 0) << "it spins again at once";
}

TEST(Spin, CostsLittleWhereItNeverPays) {
  Spin spin;
  Clock::duration spun{};
  const Clock::time_point begin = Clock::now();
  while (Clock::now() < begin + 400ms) {
    const Clock::time_point before = Clock::now();
    if (looks_in_vain(spin) > 0) spun += Clock::now() - before;
    std::this_thread::sleep_for(100us);
  }
  // About a hundredth of it; where the core is lost in between, a single spin takes a turn of the others.
  EXPECT_LT(spun, (Clock::now() - begin) / 4);
}

TEST(Spin, EndsOnABusyHost) {
  std::atomic<bool> over = false;
  std::vector<std::thread> busy;
  for (unsigned i = 0; i < 3 * std::thread::hardware_concurrency(); ++i)
    busy.emplace_back([&] {
      while (!over) {
      }
    });
  EXPECT_TRUE(testing::eventually([&] {
    Spin fresh;  // one that has not spun in vain
    return looks_in_vain(fresh) == 0;
  })) << "it spins although others want the cores";
  over = true;
  for (std::thread& thread : busy) thread.join();
}

// However the wake comes between looking and sleeping.
TEST(Waker, IsWokenWhetherItSpinsOrSleeps) {
  Waker waker;
  std::atomic<int> asked = 0;
  std::atomic<int> done = 0;
  constexpr int times = 3000;
  std::thread other([&] {
    for (int i = 0; i < times; ++i) {
      while (asked.load() <= i) std::this_thread::yield();
      if (i % 3 == 1) std::this_thread::sleep_for(std::chrono::microseconds(i % 300));
      done = i + 1;
      waker.wake();
    }
  });
  for (int i = 0; i < times && !::testing::Test::HasFailure(); ++i) {
    asked = i + 1;
    const Clock::time_point deadline = Clock::now() + 20s;
    while (done.load() <= i && Clock::now() < deadline) waker.sleep(-1, deadline);
    EXPECT_GT(done.load(), i) << "the wake was lost";
  }
  asked = times;
  other.join();
}

}  // namespace
}  // namespace gradwire::net
