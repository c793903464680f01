// N30: threads that wait in calls use no descriptors, and a process that has none left still gets its answers.
#include <fcntl.h>
#include <sys/resource.h>

#include <thread>

#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/processes.h"

#include "tests/support/member.h"
#include "tests/support/sanitized.h"
#include "tests/support/store_file.h"

namespace gradwire {
namespace {

using testing::StoreFile;

constexpr Function<int(int)> bounce{"bounce"};

Registry make_registry() {
  Registry registry;
  registry.add(bounce, [](int left) -> int {
    if (left == 0) return 0;
    Worker& here = Worker::current();
    return 1 + here.peer(1 - here.rank()).call(bounce, left - 1).get();
  });
  return registry;
}

// A worker of two, in a process that may open 256 files and no more.
int with_few_descriptors(testing::Child& me) {
  const rlimit few{.rlim_cur = 256, .rlim_max = 256};
  if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
  auto worker = Worker::join(make_registry(), testing::member_options(me));
  try {
    if (worker->rank() == 0) me.say(std::to_string(worker->peer(1).call(bounce, 500).get()));
  } catch (const std::exception& error) {
    me.say(error.what());
  }
  worker->leave();
  return 0;
}

TEST(Descriptors, N30_FiveHundredNestedCallsNeedFewerThan256) {
  StoreFile store;
  auto first = testing::start_member(with_few_descriptors, 0, 2, store);
  auto second = testing::start_member(with_few_descriptors, 1, 2, store);
  EXPECT_EQ(first->hear(), "500");
  EXPECT_EQ(first->wait(), 0);
  EXPECT_EQ(second->wait(), 0);
}

// Two workers in one process, which has no descriptor left once they have met.
int with_none_left(testing::Child& me) {
  const rlimit few{.rlim_cur = 128, .rlim_max = 128};
  if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
  std::unique_ptr<Worker> other;
  const auto join = [&](int rank) {
    return Worker::join(make_registry(), {.rank = rank, .world_size = 2, .store_file = me.argument()});
  };
  std::thread joins([&] { other = join(1); });
  const auto worker = join(0);
  joins.join();
  const Peer peer = worker->peer(1);
  std::string answer;
  std::vector<int> files;
  try {
    peer.call(bounce, 4).get();
    for (int file; (file = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) files.push_back(file);
    answer = std::to_string(peer.call(bounce, 100).get());
  } catch (const std::exception& error) {
    answer = error.what();
  }
  for (const int file : files) ::close(file);
  std::thread leaves([&] { other->leave(); });
  worker->leave();
  leaves.join();
  me.say(answer);
  return 0;
}

TEST(Descriptors, W11_ACallGetsItsAnswerInAProcessThatHasNoDescriptorLeft) {
  if (testing::undefined_sanitizer) GTEST_SKIP() << testing::without_descriptors;
  StoreFile store;
  auto process = testing::Processes().start(with_none_left, store.path);
  EXPECT_EQ(process->hear(), "100");
  EXPECT_EQ(process->wait(), 0);
}

}  // namespace
}  // namespace gradwire
