#include "gradwire/net/spin.h"

#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gradwire/net/descriptor.h"
#include "gradwire/net/waker.h"

#include "tests/support/wait.h"

namespace gradwire::net {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

bool always(Clock::time_point) { return true; }

int looks_in_vain(Spin& spin) {
  int looks = 0;
  EXPECT_FALSE(spin.until(Clock::time_point::max(), [&] {
    ++looks;
    return false;
  }));
  return looks;
}

TEST(Spin, EndsWhenWhatIsWaitedForIsThere) {
  for (int i = 0; i < 1000; ++i) {
    Spin spin(always);
    int looks = 0;
    const bool came = spin.until(Clock::time_point::max(), [&] { return ++looks == 3; });
    EXPECT_GT(looks, 0);
    EXPECT_EQ(came, looks == 3);  // a core that is lost ends it too
  }
}

// Pauses of 0.1 ms, 0.2 ms ... 12.8 ms: some forty in this time. Without them it would be thousands.
void expect_few_spins(const std::function<void(Spin&)>& before_each) {
  Spin spin(always);
  int spins = 0;
  const Clock::time_point begin = Clock::now();
  while (Clock::now() < begin + 400ms) {
    before_each(spin);
    if (looks_in_vain(spin) > 0) ++spins;
  }
  EXPECT_GT(spins, 1);
  EXPECT_LT(spins, 60);
}

TEST(Spin, CostsLittleWhereItNeverPays) {
  expect_few_spins([](Spin&) {});
}

TEST(Spin, LearnsNothingFromWhatWasThereAtOnce) {
  expect_few_spins([](Spin& spin) { spin.until(Clock::time_point::max(), [] { return true; }); });
}

TEST(Spin, EndsAtTheDeadline) {
  Spin spin(always);
  int looks = 0;
  EXPECT_FALSE(spin.until(Clock::now(), [&] {
    ++looks;
    return false;
  }));
  EXPECT_LE(looks, 1);
}

TEST(Spin, EndsOnABusyHost) {
  EXPECT_TRUE(testing::eventually([] { return Spin::host_has_a_core(Clock::now()); }));
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

// However the wake comes between looking and sleeping, and bytes with it.
void wake_in_turns(bool with_socket) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const Descriptor mine(pair[0]);
  const Descriptor others(pair[1]);
  Waker waker;
  std::atomic<int> asked = 0;
  std::atomic<int> done = 0;
  constexpr int times = 3000;
  std::thread other([&] {
    for (int i = 0; i < times; ++i) {
      while (asked.load() <= i) std::this_thread::yield();
      if (i % 3 == 1) std::this_thread::sleep_for(std::chrono::microseconds(i % 300));
      if (with_socket && i % 2 == 0) {
        EXPECT_EQ(::send(others.get(), "x", 1, 0), 1);
      }
      done = i + 1;
      waker.wake();
    }
  });
  for (int i = 0; i < times && !::testing::Test::HasFailure(); ++i) {
    asked = i + 1;
    const Clock::time_point deadline = Clock::now() + 20s;
    while (done.load() <= i && Clock::now() < deadline) {
      const auto read = [&] {
        char byte;
        return ::recv(mine.get(), &byte, 1, MSG_DONTWAIT) == 1;
      };
      if (!with_socket) {
        waker.sleep(-1, deadline);
      } else if (waker.sleep(mine.get(), deadline, i % 4 < 2 ? read : std::function<bool()>())) {
        EXPECT_TRUE(read());
      }
    }
    EXPECT_LT(Clock::now(), deadline) << "the wake was lost";
  }
  asked = times;
  other.join();
}

TEST(Waker, IsWokenWhetherItSpinsOrSleeps) { wake_in_turns(false); }

TEST(Waker, IsWokenWhetherBytesComeOrNot) { wake_in_turns(true); }

}  // namespace
}  // namespace gradwire::net
