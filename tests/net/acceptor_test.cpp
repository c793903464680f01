// What an acceptor leaves behind when it is closed.
#include "gradwire/net/acceptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gradwire/net/unix_socket.h"

#include "tests/support/socket_end.h"

namespace gradwire::testing {
namespace {

// Whether an epoll set holds this file, as the kernel tells.
bool watches(int epoll, ino_t file) {
  std::ifstream lines(fmt::format("/proc/self/fdinfo/{}", epoll));
  const std::string wanted = fmt::format("ino:{:x}", file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    for (std::string word; words >> word;)
      if (word == wanted) return true;
  }
  return false;
}

// The kernel forgets a file with its last descriptor. A process that was forked may still have one: every connection
// would wake the loop then, for good, because no one accepts it.
TEST(Acceptor, IsWatchedNoMoreOnceItIsClosedAlsoIfTheSocketLivesOn) {
  const std::shared_ptr<net::Runtime> runtime = net::Runtime::of_process();
  const Folder folder;
  net::Descriptor socket = net::listen_on_unix_socket(folder / "s");
  struct stat about{};
  ASSERT_EQ(::fstat(socket.get(), &about), 0);
  const net::Descriptor kept(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  ASSERT_TRUE(kept);
  const auto acceptor = net::Acceptor::make(runtime, std::move(socket), [](const net::Descriptor&) {});
  const int epoll = runtime->poller().descriptor();
  if (!watches(epoll, about.st_ino)) GTEST_SKIP() << "this kernel does not tell which files an epoll set holds";
  acceptor->close();
  EXPECT_FALSE(watches(epoll, about.st_ino));
}

}  // namespace
}  // namespace gradwire::testing
