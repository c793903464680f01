// Who may come in through a worker's sockets, what a record can make a worker dial or remove, and what a worker leaves
// behind.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <future>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "gradwire/net/held_folder.h"
#include "gradwire/net/host_addresses.h"
#include "gradwire/net/unix_socket.h"
#include "gradwire/testing/processes.h"

#include "tests/support/socket_end.h"
#include "tests/support/thrown.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto plain = net::MessageType{16};

net::SocketOptions tcp_only() { return {.unix_domain = false, .tcp_host = "127.0.0.1", .insecure = true}; }

// A TCP socket that listens on loopback, as anyone's could.
struct TcpListener {
  explicit TcpListener(uint16_t wanted = 0) : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(wanted);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    listens = ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 && ::listen(socket.get(), 8) == 0;
    ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
  }
  bool has_visitor() const {
    return net::Descriptor(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC)).get() >= 0;
  }
  net::Descriptor socket;
  bool listens = false;
  uint16_t port = 0;
};

net::DialResult dial(const net::Record& record, net::SocketOptions options = {}) {
  const auto runtime = net::Runtime::of_process();
  const auto transport = net::make_socket_transport(runtime, std::move(options));
  std::promise<net::DialResult> promise;
  transport->dial(record, [&](net::DialResult result) { promise.set_value(std::move(result)); });
  return promise.get_future().get();
}

net::Record on_this_host(const std::string& unix_path) {
  return {.name = "other",
          .incarnation = make_incarnation(),
          .host = net::host_of_process(),
          .user = ::geteuid(),
          .unix_path = unix_path};
}

// A process of this user may say Hello to a worker. What it says about itself does not make the worker connect to
// others: not over TCP, and not to sockets in folders where others may put them.
TEST(SocketDoors, W12_NoAddressInAStrangersHelloIsDialledWhenItsLinkEnds) {
  const TcpListener elsewhere;
  ASSERT_TRUE(elsewhere.listens);
  const Folder open_to_all;
  ASSERT_EQ(::chmod(open_to_all.path.c_str(), 0777), 0);
  const std::string path = open_to_all / "s";
  const net::Descriptor listening = net::listen_on_unix_socket(path);
  const auto has_unix_visitor = [&] {
    return net::Descriptor(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)).get() >= 0;
  };
  SocketEnd a("a");
  const std::string tcp_address = fmt::format("127.0.0.1:{}", elsewhere.port);
  for (const bool claims_this_host : {true, false}) {
    net::Hello hello;
    hello.mine = on_this_host(path);
    hello.mine.tcp_address = tcp_address;
    if (!claims_this_host) hello.mine.host = "another";
    hello.yours = a.record().incarnation;
    hello.attempt = 1;
    net::UnixConnection connection = net::connect_to_unix_socket(a.record().unix_path);
    ASSERT_TRUE(connection.socket) << std::strerror(connection.error);
    const std::string opening = net::encode_hello(hello);
    ASSERT_EQ(::send(connection.socket.get(), opening.data(), opening.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(opening.size()));
    const auto session = [&] { return a.endpoint->find(hello.mine.incarnation); };
    ASSERT_TRUE(wait_until([&] { return session() && session()->statistics().linked; })) << "it is let in";
    connection.socket = net::Descriptor();
    ASSERT_TRUE(wait_until([&] { return session()->statistics().dials >= 3; })) << "it tries to make the link anew";
    EXPECT_FALSE(elsewhere.has_visitor());
    EXPECT_FALSE(has_unix_visitor());
  }
}

TEST(SocketDoors, W1_AWorkerWithoutInsecureDialsNoTcpWhateverARecordSays) {
  TcpListener stranger;
  ASSERT_TRUE(stranger.listens);
  const std::string address = fmt::format("127.0.0.1:{}", stranger.port);
  const net::DialResult result = dial({.name = "other", .tcp_address = address});
  EXPECT_EQ(result.outcome, net::DialOutcome::impossible);
  EXPECT_THAT(result.why, AllOf(HasSubstr(address), HasSubstr("`insecure`"), HasSubstr("GRADWIRE_INSECURE")));
  EXPECT_FALSE(stranger.has_visitor());
  EXPECT_EQ(dial({.name = "other", .tcp_address = address}, {.insecure = true}).outcome, net::DialOutcome::connected);
}

TEST(SocketDoors, W2_PlainTcpTakesInsecureOnLoopbackToo) {
  const auto runtime = net::Runtime::of_process();
  for (const char* host : {"127.0.0.1", "::1", "192.0.2.7"})
    EXPECT_THAT(thrown<InvalidArgumentError>([&] { net::make_socket_transport(runtime, {.tcp_host = host}); }),
                AllOf(HasSubstr(host), HasSubstr("GRADWIRE_TCP_HOST"), HasSubstr("GRADWIRE_INSECURE")));
  for (const net::SocketOptions& options :
       {net::SocketOptions{.tcp_port = {29600, 29600}}, net::SocketOptions{.tcp_advertise = "192.0.2.7:29600"}})
    EXPECT_THAT(thrown<InvalidArgumentError>([&] { net::make_socket_transport(runtime, options); }),
                HasSubstr("GRADWIRE_TCP_HOST"));
}

// The sockets of this process that listen, by kind.
int listening(int domain) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    int of = 0;
    int accepts = 0;
    socklen_t size = sizeof(int);
    if (::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &of, &size) == 0 &&
        ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) == 0 && of == domain)
      count += accepts;
  }
  return count;
}

TEST(SocketDoors, W2_AWorkerWithoutInsecureListensOnNoPort) {
  const SocketEnd a("a");
  EXPECT_EQ(listening(AF_INET) + listening(AF_INET6), 0);
  EXPECT_EQ(listening(AF_UNIX), 1);
}

// A socket file that no one listens at.
std::string dead_socket(const std::string& folder) {
  const std::string path = folder + "/s";
  const net::Descriptor socket = net::listen_on_unix_socket(path);
  return path;
}

TEST(SocketDoors, W3_NothingIsUnlinkedThroughALinkedFolder) {
  const Folder place;
  const std::string victim = place / "victim";
  ASSERT_EQ(::mkdir(victim.c_str(), 0700), 0);
  const std::string socket = dead_socket(victim);
  std::filesystem::create_directory_symlink(victim, place / "gradwire-worker-Abc123");
  EXPECT_NE(dial(on_this_host(place / "gradwire-worker-Abc123/s")).outcome, net::DialOutcome::connected);
  EXPECT_TRUE(std::filesystem::exists(socket));
}

TEST(SocketDoors, W3_OnlyAnAbandonedFolderOfThisUserAloneIsRemoved) {
  const Folder place;
  for (const char* name : {"results", "gradwire-results", "gradwire-worker-Abc123"}) {
    ASSERT_EQ(::mkdir((place / name).c_str(), 0700), 0);
    dead_socket(place / name);
  }
  // A folder that others can enter is not dialled: the socket in it may be anyone's.
  ASSERT_EQ(::chmod((place / "gradwire-worker-Abc123").c_str(), 0711), 0);
  EXPECT_EQ(dial(on_this_host(place / "gradwire-worker-Abc123/s")).outcome, net::DialOutcome::impossible);
  EXPECT_TRUE(std::filesystem::exists(place / "gradwire-worker-Abc123/s"));
  for (const char* name : {"results", "gradwire-results"}) {
    EXPECT_EQ(dial(on_this_host(place / name + "/s")).outcome, net::DialOutcome::refused) << name;
    EXPECT_TRUE(std::filesystem::exists(place / name + "/s")) << name;
  }
  ASSERT_EQ(::chmod((place / "gradwire-worker-Abc123").c_str(), 0700), 0);
  EXPECT_EQ(dial(on_this_host(place / "gradwire-worker-Abc123/s")).outcome, net::DialOutcome::refused);
  EXPECT_FALSE(std::filesystem::exists(place / "gradwire-worker-Abc123"));
}

TEST(SocketDoors, W3_TheFolderOfALivingWorkerStaysWhereItsSocketRefuses) {
  const Folder place;
  net::HeldFolder folder(net::worker_folders(), place.path);
  EXPECT_EQ(dial(on_this_host(dead_socket(folder.path()))).outcome, net::DialOutcome::refused);
  EXPECT_TRUE(folder.is_there());
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/s"));
}

// A thread that looks at all descriptors again and again: a fork and exec at any of these moments would pass them on.
TEST(SocketDoors, W17_NoSocketIsEverInheritedByAStartedProgram) {
  constexpr int most = 256;
  const auto inherited = [](int descriptor) {
    struct stat before{};
    struct stat after{};
    if (::fstat(descriptor, &before) != 0 || !S_ISSOCK(before.st_mode)) return false;
    const int flags = ::fcntl(descriptor, F_GETFD);
    // The flags are this socket's only if the number did not pass to another file meanwhile.
    return flags >= 0 && (flags & FD_CLOEXEC) == 0 && ::fstat(descriptor, &after) == 0 &&
           before.st_dev == after.st_dev && before.st_ino == after.st_ino;
  };
  std::set<int> before;
  for (int descriptor = 0; descriptor < most; ++descriptor)
    if (inherited(descriptor)) before.insert(descriptor);
  std::atomic<bool> stop = false;
  std::atomic<int> found = 0;
  std::thread watcher([&] {
    while (!stop)
      for (int descriptor = 0; descriptor < most; ++descriptor)
        if (!before.contains(descriptor) && inherited(descriptor)) ++found;
  });
  for (int round = 0; round < 300; ++round) {
    SocketEnd a("a", {}, {.tcp_host = "127.0.0.1", .insecure = true}), b("b"), c("c", {}, tcp_only());
    for (SocketEnd* to : {&b, &c}) a.session(to->record())->send({.type = plain}, net::Admission::always);
    EXPECT_TRUE(wait_until([&] { return b.handler->count() == 1 && c.handler->count() == 1; }));
  }
  stop = true;
  watcher.join();
  EXPECT_EQ(found, 0);
}

TEST(SocketDoors, TheFirstFreePortOfARangeIsTaken) {
  // Two neighbouring ports that are free: others may take one in between, so it is tried more than once.
  for (int attempt = 0; attempt < 50; ++attempt) {
    TcpListener taken;
    const auto next = static_cast<uint16_t>(taken.port + 1);
    if (!taken.listens || next == 0 || !TcpListener(next).listens) continue;
    net::SocketOptions options = tcp_only();
    options.tcp_port = {taken.port, next};
    try {
      const SocketEnd a("a", {}, options);
      EXPECT_EQ(a.record().tcp_address, fmt::format("127.0.0.1:{}", next));
      const std::string ports = to_string(options.tcp_port);
      EXPECT_THAT(thrown<InvalidArgumentError>([&] { SocketEnd("b", {}, options); }),
                  AllOf(HasSubstr("GRADWIRE_TCP_PORT"), HasSubstr(ports)));
      return;
    } catch (const InvalidArgumentError&) {
      continue;
    }
  }
  FAIL() << "no two neighbouring ports were free in 50 attempts";
}

TEST(SocketDoors, OthersReachAWorkerWhereItAdvertises) {
  net::SocketOptions options = tcp_only();
  for (int attempt = 0; attempt < 50; ++attempt) {
    const uint16_t port = TcpListener().port;
    options.tcp_host = "0.0.0.0";
    options.tcp_port = {port, port};
    options.tcp_advertise = fmt::format("127.0.0.3:{}", port);
    std::unique_ptr<SocketEnd> b;
    try {
      b = std::make_unique<SocketEnd>("b", net::SessionOptions{}, options);
    } catch (const InvalidArgumentError&) {
      continue;  // someone took the port
    }
    EXPECT_EQ(b->record().tcp_address, options.tcp_advertise);
    SocketEnd a("a", {}, tcp_only());
    a.session(b->record())->send({.type = plain}, net::Admission::always);
    EXPECT_TRUE(wait_until([&] { return b->handler->count() == 1; })) << a.handler->why();
    return;
  }
  FAIL() << "no port was free in 50 attempts";
}

TEST(SocketDoors, CarrySessionsOverIpv6) {
  if (!net::belongs_to_this_host("::1") || !net::address_that_routes_to("::1"))
    GTEST_SKIP() << "this host has no IPv6 loopback";
  const net::SocketOptions options{.unix_domain = false, .tcp_host = "::1", .insecure = true};
  SocketEnd a("a", {}, options), b("b", {}, options);
  EXPECT_THAT(b.record().tcp_address, ::testing::StartsWith("[::1]:"));
  a.session(b.record())->send({.type = plain}, net::Admission::always);
  EXPECT_TRUE(wait_until([&] { return b.handler->count() == 1; })) << a.handler->why();
}

TEST(SocketDoors, AnAddressInARecordIsNumericOrIsNotDialled) {
  for (const char* address : {"localhost:1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "::1:80",
                              "127.0.0.1:80x", ":80", "[::1]", "no port"}) {
    const net::DialResult result = dial({.name = "other", .tcp_address = address}, {.insecure = true});
    EXPECT_EQ(result.outcome, net::DialOutcome::impossible) << address;
    EXPECT_THAT(result.why, HasSubstr(address));
  }
}

TEST(SocketDoors, N4_AWorkerWhoseFolderWasRemovedIsNotTakenForDead) {
  SocketEnd b("b", {}, {.check_socket_every = 300ms});
  const std::filesystem::path folder = std::filesystem::path(b.record().unix_path).parent_path();
  for (size_t round = 1; round <= 3; ++round) {
    // By turns the socket alone, and the folder with it.
    if (round % 2 == 0)
      std::filesystem::remove(b.record().unix_path);
    else
      std::filesystem::remove_all(folder);
    // One that b does not know yet, and so cannot dial.
    SocketEnd a("a");
    a.session(b.record())->send({.type = plain}, net::Admission::always);
    EXPECT_TRUE(wait_until([&] { return b.handler->count() == round; })) << a.handler->why();
    EXPECT_THAT(a.handler->gone(), IsEmpty()) << a.handler->why();
    EXPECT_EQ(std::filesystem::status(folder).permissions(), std::filesystem::perms::owner_all);
  }
  b.endpoint->close();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(SocketDoors, N4_ASocketThatWasRemovedWithItsProcessIsDeathAtOnce) {
  const Folder folder;
  EXPECT_EQ(dial(on_this_host(folder / "s")).outcome, net::DialOutcome::refused);
  EXPECT_EQ(dial(on_this_host(folder / "gone/s")).outcome, net::DialOutcome::refused);
}

int serve_in(Child& me) {
  ::setenv("TMPDIR", me.argument().c_str(), 1);
  SocketEnd end("child");
  me.say(to_line(end.record()));
  me.hear();
  return 0;
}

TEST(SocketDoors, N4_WhatAKilledWorkerLeftIsRemovedByTheNextJoinAndALivingOnesFolderIsNot) {
  const Folder place;
  auto killed = Processes().start(serve_in, place.path);
  auto lives = Processes().start(serve_in, place.path);
  const auto folder_of = [&](Process& process) {
    return std::filesystem::path(from_line(process.hear()).unix_path).parent_path();
  };
  const std::filesystem::path left = folder_of(*killed);
  const std::filesystem::path used = folder_of(*lives);
  EXPECT_EQ(left.parent_path(), place.path) << "TMPDIR comes first";
  killed->kill();
  EXPECT_TRUE(std::filesystem::exists(left));
  ::setenv("TMPDIR", place.path.c_str(), 1);
  std::make_shared<net::Runtime>();
  ::unsetenv("TMPDIR");
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(used / "s"));
}

}  // namespace
}  // namespace gradwire::testing
