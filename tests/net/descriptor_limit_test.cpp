// N30: the limit on descriptors is raised for this process and not for the programs that it starts.
#include "gradwire/net/descriptor_limit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <gtest/gtest.h>

#include "gradwire/net/runtime.h"
#include "gradwire/net/waker.h"
#include "gradwire/testing/processes.h"

#include "tests/support/sanitized.h"

namespace gradwire::testing {
namespace {

rlim_t soft_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

void set_limit(rlim_t soft, rlim_t hard) {
  const rlimit limit{.rlim_cur = soft, .rlim_max = hard};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) throw std::runtime_error("setrlimit");
}

int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

int raise_and_fork(Child& me) {
  set_limit(200, 300);
  const auto runtime = net::Runtime::of_process();
  if (soft_limit() != 300) return 1;
  const pid_t child = fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", "test \"$(ulimit -Sn)\" = 200", nullptr);
    _exit(101);
  }
  if (status_of(child) != 0) return 2;
  // What the program itself has set since is meant.
  set_limit(250, 300);
  const pid_t second = fork();
  if (second == 0) _exit(soft_limit() == 250 ? 0 : 1);
  if (status_of(second) != 0) return 3;
  me.say("done");
  return 0;
}

TEST(DescriptorLimit, N30_IsRaisedHereAndIsTheOldOneInAForkedChild) {
  auto child = Processes().start(raise_and_fork);
  EXPECT_EQ(child->wait(), 0);
}

// Opens files until there is no descriptor left.
void use_up_descriptors() {
  while (::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
  }
}

int make_runtime_without_descriptors(Child& me) {
  set_limit(64, 64);
  use_up_descriptors();
  try {
    net::Runtime::of_process();
  } catch (const OverloadedError& error) {
    me.say(error.what());
    return error.code() == ErrorCode::overloaded ? 0 : 2;
  }
  return 1;
}

TEST(DescriptorLimit, N30_ARuntimeWithoutDescriptorsNamesTheLimit) {
  if (undefined_sanitizer) GTEST_SKIP() << without_descriptors;
  auto child = Processes().start(make_runtime_without_descriptors);
  const std::string text = child->hear();
  EXPECT_NE(text.find("ulimit -n"), std::string::npos) << text;
  EXPECT_NE(text.find("64"), std::string::npos) << text;
  EXPECT_EQ(child->wait(), 0);
}

size_t open_descriptors() {
  size_t count = 0;
  for (int descriptor = 0; descriptor < 4096; ++descriptor)
    if (fcntl(descriptor, F_GETFD) >= 0) ++count;
  return count;
}

TEST(Waker, N30_HasADescriptorOnlyWhileItWatchesASocket) {
  auto child = Processes().start([](Child&) {
    net::WakerPool pool;
    const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::milliseconds(1); };
    const size_t before = open_descriptors();
    std::vector<std::unique_ptr<net::Waker>> wakers;
    for (int i = 0; i < 100; ++i) {
      wakers.push_back(pool.take());
      wakers.back()->sleep(-1, soon());
    }
    // The spin opens a file or two of its own, such as /proc/loadavg.
    constexpr size_t others = 4;
    if (open_descriptors() > before + others) return 1;
    int ends[2];
    if (::pipe(ends) != 0) return 2;
    for (auto& waker : wakers) waker->sleep(ends[0], soon());
    if (open_descriptors() < before + wakers.size()) return 3;
    for (auto& waker : wakers) pool.give_back(std::move(waker));
    // A few are kept for the next ones; those that do not watch give them away.
    wakers.clear();
    for (int i = 0; i < 100; ++i) {
      wakers.push_back(pool.take());
      wakers.back()->sleep(-1, soon());
    }
    return open_descriptors() <= before + 2 + 16 + others ? 0 : 4;
  });
  EXPECT_EQ(child->wait(), 0);
}

}  // namespace
}  // namespace gradwire::testing
