// How much memory this process may have, from control groups as they are mounted on different systems.
#include "gradwire/net/memory_limit.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "gradwire/net/arrival_budget.h"

#include "tests/support/socket_end.h"

namespace gradwire::net {
namespace {

using testing::Folder;

class ControlGroups : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  std::optional<size_t> limit(const std::string& membership) const { return control_group_limit(membership, mount); }
  const Folder folder;
  const std::string mount = folder.path;
};

TEST_F(ControlGroups, W6_TheLowestLimitOfAGroupAndThoseAboveItHolds) {
  write("memory.max", "max");
  write("kubepods/memory.max", "3000000000");
  write("kubepods/pod/memory.max", "5000000000");
  write("kubepods/pod/container/memory.max", "max");
  EXPECT_EQ(limit("0::/kubepods/pod/container\n"), 3000000000U);
  EXPECT_EQ(limit("0::/kubepods/pod\n"), 3000000000U);
  EXPECT_EQ(limit("0::/\n"), std::nullopt);
  EXPECT_EQ(limit("0::/elsewhere\n"), std::nullopt);
}

TEST_F(ControlGroups, W6_AContainerWhoseMountIsItsOwnGroupIsRead) {
  write("memory.max", "700000000");
  EXPECT_EQ(limit("0::/docker/0123\n"), 700000000U);
}

TEST_F(ControlGroups, W6_Version1IsRead) {
  write("memory/memory.limit_in_bytes", "9223372036854771712");
  write("memory/docker/0123/memory.limit_in_bytes", "800000000");
  EXPECT_EQ(limit("12:cpu,cpuacct:/docker/0123\n5:memory:/docker/0123\n1:name=systemd:/docker/0123\n"), 800000000U);
  EXPECT_EQ(limit("5:memory,hugetlb:/docker/0123\n0::/docker/0123\n"), 800000000U) << "both versions are mounted";
  EXPECT_EQ(limit("5:cpu:/docker/0123\n"), std::nullopt);
}

TEST_F(ControlGroups, W6_WhatIsNoNumberIsNoLimit) {
  for (const char* text : {"", "a lot", "12GiB", "-1", "99999999999999999999999"}) {
    write("memory.max", text);
    EXPECT_EQ(limit("0::/\n"), std::nullopt) << text;
  }
  for (const char* membership : {"", "0", "0:", "::\n:::", "memory"}) EXPECT_EQ(limit(membership), std::nullopt);
}

TEST(MemoryLimit, W6_IsAtMostTheMachines) {
  const size_t machine = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(getpagesize());
  EXPECT_GT(memory_limit(), size_t{16} << 20U);
  EXPECT_LE(memory_limit(), machine);
  EXPECT_EQ(ArrivalBudget::of_process()->bytes(), memory_limit() / 4 * 3);
}

TEST(ArrivalBudget, W6_OneMessageAtATimeMayBeLargerThanAllOfIt) {
  ArrivalBudget budget(100);
  EXPECT_TRUE(budget.take(1000));
  EXPECT_FALSE(budget.take(101)) << "a second one";
  EXPECT_TRUE(budget.take(60)) << "it keeps no other out";
  EXPECT_FALSE(budget.take(41));
  EXPECT_TRUE(budget.take(40));
  EXPECT_FALSE(budget.take(1));
  EXPECT_EQ(budget.taken(), 1100U);
  budget.give_back(1000);
  EXPECT_TRUE(budget.take(101)) << "no other keeps it out";
  budget.give_back(101);
  budget.give_back(100);
  EXPECT_EQ(budget.taken(), 0U);
}

TEST(ArrivalBudget, W6_ThreadsTakeNoMoreTogether) {
  constexpr size_t bound = 1000;
  ArrivalBudget budget(bound);
  std::atomic<bool> beyond = false;
  std::vector<std::thread> threads;
  for (size_t each : {300U, 400U, 500U, 700U})
    threads.emplace_back([&, each] {
      for (int i = 0; i < 20000; ++i)
        if (budget.take(each)) {
          if (budget.taken() > bound) beyond = true;
          budget.give_back(each);
        }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(beyond);
  EXPECT_EQ(budget.taken(), 0U);
}

}  // namespace
}  // namespace gradwire::net
