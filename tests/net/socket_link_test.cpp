// A link over a socket by itself: when its callbacks come, how it ends, and what of it a started program sees.
#include "gradwire/net/socket_link.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>

#include <gmock/gmock.h>

#include "tests/support/socket_end.h"

namespace gradwire::testing {
namespace {

using ::testing::IsEmpty;

// A link, and the bare socket at its other end.
struct LinkAndSocket {
  LinkAndSocket() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    link = net::make_socket_link(runtime, net::Descriptor(ends[0]), net::SocketKind::unix_domain);
    other = net::Descriptor(ends[1]);
  }
  net::Transfer write(std::string bytes, std::span<const int> descriptors = {}) {
    const iovec buffer{bytes.data(), bytes.size()};
    return link->write({&buffer, 1}, descriptors);
  }
  std::shared_ptr<net::Runtime> runtime = net::Runtime::of_process();
  std::shared_ptr<net::Link> link;
  net::Descriptor other;
};

TEST(SocketLink, StillTellsOfRoomAfterAnEventThatNoOneWantsAnyMore) {
  LinkAndSocket pair;
  std::atomic<int> told = 0;
  pair.link->watch([] {}, [&] { ++told; });
  while (pair.write(std::string(65536, 'x')).bytes > 0) {
  }
  pair.link->want_writable();
  // The loop saw bytes, and before it said so a thread that waits took the reading over.
  dynamic_cast<net::Watcher&>(*pair.link).ready({.readable = true});
  std::string bytes(size_t{1} << 20U, ' ');
  EXPECT_TRUE(wait_until([&] {
    (void)recv(pair.other.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    return told == 1;
  }));
  pair.link->close();
}

TEST(SocketLink, AWriteThatTheSystemRefusesEndsItForBothSides) {
  LinkAndSocket pair;
  const std::array no_descriptor{1 << 20};
  EXPECT_TRUE(pair.write("x", no_descriptor).closed);
  char byte;
  EXPECT_EQ(recv(pair.other.get(), &byte, 1, MSG_DONTWAIT), 0) << "the end, instead of nothing yet";
  std::vector<net::Descriptor> none;
  const iovec buffer{&byte, 1};
  EXPECT_TRUE(pair.link->read({&buffer, 1}, none).closed);
}

std::set<int> open_descriptors() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    found.insert(std::stoi(entry.path().filename()));
  return found;
}

TEST(Sockets, DoNotReachAProgramThatThisOneStarts) {
  const std::set<int> before = open_descriptors();
  SocketEnd a("a", {}, {.tcp_host = "127.0.0.1", .insecure = true}), b("b"),
      c("c", {}, {.unix_domain = false, .tcp_host = "127.0.0.1", .insecure = true});
  for (SocketEnd* to : {&b, &c}) a.session(to->record())->send({.type = net::MessageType{16}}, net::Admission::always);
  ASSERT_TRUE(wait_until([&] { return b.handler->count() == 1 && c.handler->count() == 1; }));
  std::vector<std::string> kept;
  for (int descriptor : open_descriptors()) {
    const int flags = fcntl(descriptor, F_GETFD);  // none: it was the folder's own
    if (before.contains(descriptor) || flags < 0 || (flags & FD_CLOEXEC) != 0) continue;
    kept.push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)));
  }
  EXPECT_THAT(kept, IsEmpty());
}

}  // namespace
}  // namespace gradwire::testing
