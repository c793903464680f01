#include "gradwire/testing/processes.h"

#include <signal.h>

#include <gtest/gtest.h>

#include "gradwire/base/error.h"

namespace gradwire::testing {
namespace {

TEST(Processes, TalkWithTheirParent) {
  auto child = Processes().start(
      [](Child& me) {
        me.say("hello " + me.argument());
        return me.hear() == "bye" ? 7 : 8;
      },
      "you");
  EXPECT_EQ(child->hear(), "hello you");
  child->say("bye");
  EXPECT_EQ(child->wait(), 7);
}

TEST(Processes, CanBeKilledAndStopped) {
  auto child = Processes().start([](Child& me) {
    for (;;) me.say(me.hear());
    return 0;
  });
  child->stop();
  child->say("ping");
  EXPECT_THROW(child->hear(std::chrono::milliseconds(50)), TimeoutError);
  child->signal(SIGCONT);
  EXPECT_EQ(child->hear(), "ping");
  child->kill();
  EXPECT_EQ(child->wait(), 128 + SIGKILL);
}

TEST(Processes, TellHowTheyEnded) {
  EXPECT_EQ(Processes().start([](Child&) -> int { abort(); })->wait(), 128 + SIGABRT);
  EXPECT_EQ(Processes().start([](Child&) -> int { throw std::runtime_error("said on standard error"); })->wait(), 1);
}

TEST(Processes, StartByTheHundred) {
  std::vector<std::unique_ptr<Process>> all;
  for (int i = 0; i < 200; ++i)
    all.push_back(Processes().start(
        [](Child& me) {
          me.say(me.argument());
          me.hear();
          return 0;
        },
        std::to_string(i)));
  for (int i = 0; i < 200; ++i) all[i]->expect(std::to_string(i));
}

TEST(Processes, AreEndedWithTheirOwner) {
  pid_t id;
  {
    auto child = Processes().start([](Child& me) {
      me.hear();
      return 0;
    });
    id = child->id();
    EXPECT_EQ(::kill(id, 0), 0);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (::kill(id, 0) == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "it outlived its owner";
    usleep(1000);
  }
}

}  // namespace
}  // namespace gradwire::testing
