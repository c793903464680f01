#include "gradwire/net/questions.h"

#include <atomic>
#include <future>
#include <set>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

namespace gradwire::net {
namespace {

using namespace std::chrono_literals;

Questions::Time in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

TEST(Questions, AreAnsweredOneAfterAnotherByOneThread) {
  Questions questions;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(questions.ask(in(60s),
                            [&, i] {
                              threads.insert(std::this_thread::get_id());
                              return i;
                            }),
              i);
  }
  EXPECT_EQ(threads.size(), 1U);
}

TEST(Questions, PassOnWhatIsThrown) {
  Questions questions;
  EXPECT_THROW(questions.ask(in(60s), []() -> int { throw std::invalid_argument("no"); }), std::invalid_argument);
  EXPECT_EQ(questions.ask(in(60s), [] { return 1; }), 1);
}

TEST(Questions, AreAskedByManyThreads) {
  Questions questions;
  int sum = 0;  // one question at a time
  std::vector<std::thread> askers;
  for (int asker = 0; asker < 8; ++asker)
    askers.emplace_back([&] {
      for (int i = 0; i < 100; ++i) questions.ask(in(60s), [&] { return ++sum; });
    });
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(sum, 800);
}

TEST(Questions, N7_WithoutAnAnswerHoldNobodyUpAndStartNothingLater) {
  const auto gate = std::make_shared<std::promise<void>>();
  const auto ended = std::make_shared<std::promise<void>>();
  const auto begun = std::make_shared<std::atomic<int>>(0);
  {
    Questions questions;
    EXPECT_EQ(questions.ask(in(50ms),
                            [gate, ended, begun] {
                              ++*begun;
                              gate->get_future().wait();
                              ended->set_value();
                              return 0;
                            }),
              std::nullopt);
    // These wait behind it, and are given up before they begin.
    for (int i = 0; i < 3; ++i) EXPECT_EQ(questions.ask(in(1ms), [begun] { return ++*begun; }), std::nullopt);
    gate->set_value();
    EXPECT_EQ(questions.ask(in(60s), [begun] { return begun->load(); }), 1);
  }
  ended->get_future().wait();
}

TEST(Questions, N7_OneThatIsNeverAnsweredOutlivesTheAsker) {
  const auto gate = std::make_shared<std::promise<void>>();
  const auto ended = std::make_shared<std::promise<void>>();
  {
    Questions questions;
    EXPECT_EQ(questions.ask(in(20ms),
                            [gate, ended] {
                              gate->get_future().wait();
                              ended->set_value();
                              return 0;
                            }),
              std::nullopt);
  }
  gate->set_value();
  ended->get_future().wait();
}

}  // namespace
}  // namespace gradwire::net
