// The library's threads end before the process does: a function under way never runs into its end.
#include <unistd.h>

#include <future>
#include <thread>

#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <gmock/gmock.h>

#include "gradwire/net/runtime.h"
#include "gradwire/testing/processes.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;

// Begins a function on the runtime's threads, and returns when it runs.
void begin(net::Runtime& runtime, std::function<void()> function) {
  std::promise<void> begun;
  runtime.submit([&begun, function = std::move(function)] {
    begun.set_value();
    function();
  });
  begun.get_future().wait();
}

void work_for(std::chrono::milliseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;)
    if (at::sum(at::ones({100})).item().toFloat() != 100) std::abort();
}

// Held by its own function alone, as by one of a worker that is gone.
TEST(ProcessExit, WaitsForAFunctionOfARuntimeThatIsGone) {
  const auto process = Processes().start([](Child& me) {
    auto runtime = net::Runtime::of_process();
    begin(*runtime, [&me, runtime] {
      work_for(300ms);
      me.say("done");
    });
    runtime = nullptr;
    std::exit(3);
    return 0;
  });
  process->expect("done");
  EXPECT_EQ(process->wait(), 3);
}

TEST(ProcessExit, WaitsForAFunctionOfARuntimeThatIsStillThere) {
  const auto process = Processes().start([](Child& me) {
    static const auto runtime = net::Runtime::of_process();
    begin(*runtime, [&me] {
      work_for(300ms);
      me.say("done");
    });
    std::exit(3);
    return 0;
  });
  process->expect("done");
  EXPECT_EQ(process->wait(), 3);
}

struct MadeLater {
  bool* there;
  ~MadeLater() { *there = false; }
};

// As torch does with much of its state.
TEST(ProcessExit, WaitsBeforeWhatWasMadeLaterIsTakenDown) {
  const auto process = Processes().start([](Child& me) {
    const auto runtime = net::Runtime::of_process();
    static bool there = true;
    static const MadeLater made_later{&there};
    begin(*runtime, [&me] {
      work_for(300ms);
      me.say(there ? "still there" : "gone");
    });
    std::exit(3);
    return 0;
  });
  process->expect("still there");
  EXPECT_EQ(process->wait(), 3);
}

TEST(ProcessExit, MayBeTheFunctionsOwnDoing) {
  const auto process = Processes().start([](Child&) {
    const auto runtime = net::Runtime::of_process();
    begin(*runtime, [] { std::exit(3); });
    pause();
    return 0;
  });
  EXPECT_EQ(process->wait(), 3);
}

TEST(ProcessExit, DoesNotWaitForeverForAFunctionThatDoesNotReturn) {
  const auto process = Processes().start([](Child&) {
    const auto runtime = net::Runtime::of_process();
    begin(*runtime, [] { pause(); });
    std::exit(3);
    return 0;
  });
  EXPECT_EQ(process->wait(20s), 3);
}

}  // namespace
}  // namespace gradwire::testing
