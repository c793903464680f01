// What a worker printed reaches `gradwire run` even when the worker is killed.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/processes.h"

#include "tests/support/store_file.h"

namespace gradwire {
namespace {

// "FILE STORE": joins alone with stdout in the file, prints a line, and is killed.
int print_and_die(testing::Child& me) {
  const std::string file = me.argument().substr(0, me.argument().find(' '));
  const std::string store = me.argument().substr(file.size() + 1);
  setenv("GRADWIRE_RESTART", "0", 1);  // as `gradwire run` sets it
  if (std::freopen(file.c_str(), "w", stdout) == nullptr) return 1;
  std::setvbuf(stdout, nullptr, _IOFBF, BUFSIZ);  // as for a pipe
  const auto worker = Worker::join(Registry(), {.rank = 0, .world_size = 1, .store_file = store});
  std::printf("last words\n");
  std::raise(SIGKILL);
  return 1;
}

TEST(LineBuffering, N21_UnderGradwireRunTheLastLineOfAKilledWorkerIsNotLost) {
  const testing::StoreFile store;
  const testing::StoreFile output;
  testing::Processes processes;
  const auto child = processes.start(print_and_die, output.path + " " + store.path);
  EXPECT_EQ(child->wait(), 128 + SIGKILL);
  std::string line;
  std::getline(std::ifstream(output.path), line);
  EXPECT_EQ(line, "last words");
}

}  // namespace
}  // namespace gradwire
