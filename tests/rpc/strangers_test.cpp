// Another user of this host faces a worker: its processes reach no socket of it, and what they write in a TCP store
// makes the worker dial nobody and remove nothing.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "gradwire/gradwire.h"
#include "gradwire/net/meeting_point.h"
#include "gradwire/net/unix_socket.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/testing/processes.h"

#include "tests/support/socket_end.h"
#include "tests/support/store_file.h"
#include "tests/support/stranger.h"
#include "tests/support/thrown.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using testing::Folder;
using testing::from_line;
using ::testing::HasSubstr;
using testing::StoreFile;
using testing::to_line;

constexpr Function<int(int)> add_one{"add_one_secretly"};

Registry make_registry() {
  Registry registry;
  registry.add(add_one, [](int x) { return x + 1; });
  return registry;
}

net::Descriptor listen_on_tcp(uint16_t& port) {
  net::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(socket.get(), 8) != 0)
    throw std::runtime_error("no port for the stranger");
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  return socket;
}

bool has_visitor(const net::Descriptor& listening) {
  return static_cast<bool>(net::Descriptor(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC)));
}

// All that a socket says before its end.
std::string hear_all(const net::Descriptor& socket) {
  std::string heard;
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t count = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EAGAIN) {
      std::this_thread::sleep_for(1ms);
      continue;
    }
    if (count <= 0) return heard;
    heard.append(bytes.data(), static_cast<size_t>(count));
  }
}

// A process of another user. It does what it is told, one line each: "connect RECORD", "forge PORT RECORD" (into the
// TCP store at that port), "visitors", "end".
int stranger(testing::Child& me) {
  const std::string why = testing::become_stranger();
  me.say(why);
  if (!why.empty()) return 0;
  uint16_t port = 0;
  const net::Descriptor tcp = listen_on_tcp(port);
  ::setenv("TMPDIR", "/tmp", 1);
  const Folder folder;  // its own; the worker could connect to a socket in it
  ::chmod(folder.path.c_str(), 0755);
  const std::string path = folder / "s";
  const net::Descriptor socket = net::listen_on_unix_socket(path);
  ::chmod(path.c_str(), 0777);
  me.say(std::to_string(port));
  me.say(path);
  for (;;) {
    std::istringstream order(me.hear());
    std::string verb;
    order >> verb;
    if (verb == "end") return 0;
    if (verb == "visitors") me.say(has_visitor(tcp) || has_visitor(socket) ? "some" : "none");
    if (verb == "connect") {
      std::string line;
      order >> line;
      net::Hello hello;
      hello.mine = from_line(line);
      hello.yours = hello.mine.incarnation;  // as one who has learned who is there
      hello.mine.incarnation = make_incarnation();
      hello.attempt = uint64_t{1} << 40U;
      const net::UnixConnection connection = net::connect_to_unix_socket(hello.mine.unix_path);
      if (!connection.socket) {
        me.say(std::strerror(connection.error));
        continue;
      }
      const std::string opening = net::encode_hello(hello);
      ::send(connection.socket.get(), opening.data(), opening.size(), MSG_NOSIGNAL);
      me.say("heard " + std::to_string(hear_all(connection.socket).size()));
    }
    if (verb == "forge") {
      std::string line;
      uint16_t store_port = 0;
      order >> store_port >> line;
      WorkerOptions options{.master_port = store_port, .holds_store = false};
      const net::Record forged = from_line(line);
      wire::ByteWriter bytes;
      net::encode(bytes, forged);
      const net::StorePointer store = open_store(options);
      store->set("gradwire/name/" + forged.name, bytes.bytes());
      store->set(fmt::format("gradwire/rank/{}", forged.rank), bytes.bytes());
      me.say("forged");
    }
  }
}

// A stranger who is ready; its own sockets. Without one, `reason` says why.
struct Stranger {
  Stranger() : process(testing::Processes().start(stranger)), reason(process->hear()) {
    if (!reason.empty()) return;
    tcp_address = "127.0.0.1:" + process->hear();
    unix_path = process->hear();
  }
  std::string ask(const std::string& order) const {
    process->say(order);
    return process->hear();
  }
  std::unique_ptr<testing::Process> process;
  std::string reason;
  std::string tcp_address;
  std::string unix_path;
};

TEST(Strangers, W2_DoNotReachAWorkerWithoutInsecure) {
  const Stranger stranger;
  if (!stranger.reason.empty()) GTEST_SKIP() << stranger.reason;
  StoreFile store;
  auto worker = Worker::join(make_registry(), {.rank = 0, .world_size = 1, .store_file = store.path});
  const net::Record& record = WorkerAccess::core(*worker).record();
  EXPECT_TRUE(record.tcp_address.empty());
  const std::string order = "connect " + to_line(record);
  EXPECT_EQ(stranger.ask(order), std::strerror(EACCES)) << "its folder is closed";
  // Even where the folder stands open, the kernel says who it is.
  const std::filesystem::path folder = std::filesystem::path(record.unix_path).parent_path();
  ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(record.unix_path.c_str(), 0777), 0);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(stranger.ask(order), "heard 0") << "neither an incarnation nor a function's name";
  EXPECT_TRUE(WorkerAccess::core(*worker).endpoint()->sessions().empty());
  ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
  worker->leave();
}

TEST(Strangers, W1_AreNotDialledBecauseTheStoreNamesThem) {
  const Stranger stranger;
  if (!stranger.reason.empty()) GTEST_SKIP() << stranger.reason;
  uint16_t port = 0;
  {
    const net::Descriptor free = listen_on_tcp(port);
  }
  auto worker = Worker::join(make_registry(), {.name = "honest", .rank = 0, .master_port = port, .holds_store = true});
  net::Record forged = WorkerAccess::core(*worker).record();
  const auto forge = [&](const std::string& name, const std::string& unix_path, const std::string& tcp_address) {
    forged.name = name;
    forged.rank = -1;
    forged.incarnation = make_incarnation();
    forged.unix_path = unix_path;
    forged.tcp_address = tcp_address;
    ASSERT_EQ(stranger.ask(fmt::format("forge {} {}", port, to_line(forged))), "forged");
  };
  const auto call = [&](const std::string& name) {
    const Peer peer = worker->peer(name);  // the store has it
    EXPECT_THROW(peer.with_timeout(500ms).call(add_one, 1).get(), Error) << name;
  };
  forge("by-tcp", "", stranger.tcp_address);
  forge("by-unix", stranger.unix_path, "");
  forge("by-both", stranger.unix_path, stranger.tcp_address);
  for (const char* name : {"by-tcp", "by-unix", "by-both"}) call(name);
  EXPECT_EQ(stranger.ask("visitors"), "none");
}

TEST(Strangers, W3_HaveNothingUnlinkedByARecord) {
  const Stranger stranger;
  if (!stranger.reason.empty()) GTEST_SKIP() << stranger.reason;
  uint16_t port = 0;
  {
    const net::Descriptor free = listen_on_tcp(port);
  }
  auto worker = Worker::join(make_registry(), {.name = "honest", .rank = 0, .master_port = port, .holds_store = true});
  // A dead socket of this user that is none of Gradwire's, and the stranger's link to its folder.
  const Folder own;
  const std::string victim = own / "s";
  {
    const net::Descriptor socket = net::listen_on_unix_socket(victim);
  }
  const Folder shared;
  ASSERT_EQ(::chmod(shared.path.c_str(), 01777), 0);
  const std::string link = shared / "gradwire-worker-Abc123";
  std::filesystem::create_directory_symlink(own.path, link);
  ASSERT_EQ(::lchown(link.c_str(), testing::stranger_id, testing::stranger_id), 0);
  for (const std::string& path : {link + "/s", victim}) {
    net::Record forged = WorkerAccess::core(*worker).record();
    forged.name = fmt::format("through{}", path.size());
    forged.rank = -1;
    forged.incarnation = make_incarnation();
    forged.unix_path = path;
    ASSERT_EQ(stranger.ask(fmt::format("forge {} {}", port, to_line(forged))), "forged");
    const Peer peer = worker->peer(forged.name);
    EXPECT_THROW(peer.with_timeout(500ms).call(add_one, 1).get(), Error);
    EXPECT_TRUE(std::filesystem::exists(victim)) << path;
  }
}

TEST(Strangers, W17_AStoreFileThatAStrangerMadeIsRefused) {
  const Folder folder;
  const std::string path = folder / "store";
  std::ofstream(path) << "";
  if (::chown(path.c_str(), testing::stranger_id, testing::stranger_id) != 0)
    GTEST_SKIP() << "a file can be given to another user by root alone";
  EXPECT_THAT(testing::thrown<InvalidArgumentError>(
                  [&] { Worker::join(make_registry(), {.rank = 0, .world_size = 1, .store_file = path}); }),
              HasSubstr(path));
}

}  // namespace
}  // namespace gradwire
