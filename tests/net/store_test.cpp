// Where stores listen, who may write to them, and how long somebody waits for one.
#include "gradwire/net/store.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>

#include "gradwire/base/error.h"
#include "gradwire/net/host_addresses.h"
#include "gradwire/net/meeting_point.h"
#include "gradwire/testing/processes.h"

#include "tests/support/captured_log.h"
#include "tests/support/free_port.h"
#include "tests/support/host_name.h"
#include "tests/support/socket_end.h"
#include "tests/support/thrown.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

const net::StoreAddress on_loopback = net::address_of_own_store("127.0.0.1", false);

// The addresses, as the kernel writes them, at which this port is listened to on this host.
std::vector<std::string> listening_at(uint16_t port) {
  std::vector<std::string> addresses;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state;
      words >> number >> local >> remote >> state;
      const size_t colon = local.find(':');
      if (state == "0A" && std::stoi(local.substr(colon + 1), nullptr, 16) == port)
        addresses.push_back(local.substr(0, colon));
    }
  }
  return addresses;
}

constexpr const char* loopback_in_table = "0100007F";

TEST(Store, W9_WithoutTcpItListensOnLoopbackOnly) {
  for (const std::string& master : {std::string("127.0.0.1"), std::string("127.0.1.1"), std::string("localhost"),
                                    name_of_this_host(), std::string("elsewhere.invalid")}) {
    const uint16_t port = free_port();
    const net::StoreAddress address = net::address_of_own_store(master, false);
    const auto held = net::open_tcp_store(address, port, true, 10s);
    EXPECT_THAT(listening_at(port), ::testing::ElementsAre(loopback_in_table)) << master;
    const auto other = net::open_tcp_store(address, port, false, 10s);
    held->set("key", std::string("value"));
    EXPECT_EQ(other->get_to_str("key"), "value") << master;
  }
}

TEST(Store, W9_WithTcpItListensAtMasterAddressOrOnAllInterfaces) {
  for (const char* master : {"127.0.0.1", "127.0.1.1", "localhost", "::1", "elsewhere.invalid", "192.0.2.1"}) {
    const net::StoreAddress address = net::address_of_own_store(master, true);
    EXPECT_EQ(address.listens, "") << master;
    EXPECT_EQ(address.dialled, master);
  }
  int tried = 0;
  for (const net::InterfaceAddress& own : net::interface_addresses()) {
    if (net::is_loopback(own.address) || !own.up) continue;
    const net::StoreAddress address = net::address_of_own_store(own.address, true);
    EXPECT_EQ(address.listens, own.address);
    EXPECT_EQ(address.dialled, own.address);
    ++tried;
  }
  if (tried == 0) GTEST_SKIP() << "this host has no address but loopback: the second half was not tried";
}

TEST(Store, W9_AForeignStoreIsDialledAtMasterAddress) {
  EXPECT_EQ(net::address_of_foreign_store("127.0.1.1").dialled, "127.0.1.1");
}

// Kubernetes sets MASTER_ADDR=localhost on the first pod, while its workers are elsewhere.
TEST(Store, W9_WithTcpAndLocalhostItIsReachedFromElsewhereAndWarns) {
  const uint16_t port = free_port();
  const net::StoreAddress address = net::address_of_own_store("localhost", true);
  CapturedLog captured;
  const auto held = net::open_tcp_store(address, port, true, 10s);
  EXPECT_THAT(captured.take(), AllOf(HasSubstr("all interfaces"), HasSubstr("localhost")));
  EXPECT_THAT(listening_at(port), Each(AllOf(Not(loopback_in_table), HasSubstr("00000000"))));
  EXPECT_EQ(listening_at(port).size(), 1U);
  held->set("key", std::string("value"));
  for (const net::InterfaceAddress& own : net::interface_addresses()) {
    if (!own.up || own.address.find('%') != std::string::npos) continue;
    EXPECT_EQ(net::open_tcp_store(net::address_of_foreign_store(own.address), port, false, 10s)->get_to_str("key"),
              "value")
        << own.address;
  }
}

TEST(Store, W9_WithTcpAndANameThatIsNoAddressOfThisHostItIsNotDialledElsewhere) {
  const uint16_t port = free_port();
  CapturedLog captured;
  EXPECT_THAT(thrown<TimeoutError>([&] {
                net::open_tcp_store(net::address_of_own_store("elsewhere.invalid", true), port, true, 300ms);
              }),
              HasSubstr("elsewhere.invalid"));
  EXPECT_THAT(captured.take(), AllOf(HasSubstr("all interfaces"), HasSubstr("elsewhere.invalid")));
  EXPECT_THAT(listening_at(port), ::testing::IsEmpty()) << "what failed leaves nothing open";
}

TEST(Store, IsSharedInOneProcessByAllWhoHoldIt) {
  const uint16_t port = free_port();
  const auto first = net::open_tcp_store(on_loopback, port, true, 10s);
  // Multi-tenant: a second holder in the same process, such as torch's own process group, shares it.
  const auto second = net::open_tcp_store(on_loopback, port, true, 10s);
  first->set("key", std::string("value"));
  EXPECT_EQ(second->get_to_str("key"), "value");
}

TEST(Store, ThatCannotBeOpenedSaysWhereAndWhatToDo) {
  // Someone else's port: rank 0 cannot have it, and for the others nothing answers there.
  const auto [taken, port] = bound_to_loopback();
  const std::string place = "127.0.0.1:" + std::to_string(port);
  EXPECT_THAT(thrown<TimeoutError>([&] { net::open_tcp_store(on_loopback, port, false, 100ms); }),
              AllOf(HasSubstr(place), HasSubstr("MASTER_ADDR")));
  ASSERT_EQ(::listen(taken.get(), 1), 0);
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { net::open_tcp_store(on_loopback, port, true, 10s); }),
              AllOf(HasSubstr(place), HasSubstr("MASTER_PORT")));
  EXPECT_LT(::accept(taken.get(), nullptr, nullptr), 0) << "whoever holds the port was dialled";
}

// In a network namespace of its own: an address that is this host's and not loopback, and a stranger who listens at
// 127.0.0.1 on the store's port.
int share_the_port_with_a_stranger(Child& me) {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    me.say(std::string("skip: a network namespace is not allowed here: ") + std::strerror(errno));
    return 0;
  }
  const net::Descriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
  if (::ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) {
    me.say(std::string("skip: lo cannot be brought up: ") + std::strerror(errno));
    return 0;
  }
  std::strcpy(request.ifr_name, "lo:1");
  auto* address = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
  *address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  ::inet_pton(AF_INET, "198.51.100.7", &address->sin_addr);
  if (::ioctl(any.get(), SIOCSIFADDR, &request) != 0) {
    me.say(std::string("skip: an address cannot be added: ") + std::strerror(errno));
    return 0;
  }
  const auto [stranger, port] = bound_to_loopback();
  ::listen(stranger.get(), 5);
  const net::StoreAddress rule = net::address_of_own_store("198.51.100.7", true);
  const auto held = net::open_tcp_store(rule, port, true, 10s);
  const auto other = net::open_tcp_store(rule, port, false, 10s);
  held->set("key", std::string("value"));
  me.say("listens at " + rule.listens + ", holds " + other->get_to_str("key"));
  const int accepted = ::accept(stranger.get(), nullptr, nullptr);
  me.say(accepted < 0 && errno == EAGAIN ? "the stranger heard nothing" : "the stranger was dialled");
  return 0;
}

TEST(Store, W9_AStrangerAtLoopbackOnTheSamePortIsNeverDialled) {
  const auto child = Processes().start(share_the_port_with_a_stranger);
  const std::string said = child->hear();
  if (said.starts_with("skip: ")) GTEST_SKIP() << said.substr(6);
  EXPECT_EQ(said, "listens at 198.51.100.7, holds value");
  EXPECT_EQ(child->hear(), "the stranger heard nothing");
}

TEST(Store, N7_AFolderThatDoesNotExistIsAnErrorAtOnce) {
  Folder folder;
  const std::string path = folder / "missing/store";
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { net::open_file_store(path); }),
              AllOf(HasSubstr(path), HasSubstr(folder / "missing")));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
}

TEST(Store, W17_AFileThatOthersMayWriteToIsRefused) {
  Folder folder;
  const std::string path = folder / "store";
  net::open_file_store(path)->set("key", std::string("value"));
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U) << "made for its user alone";
  EXPECT_EQ(net::open_file_store(path)->get_to_str("key"), "value") << "a file that is there is used";
  ASSERT_EQ(::chmod(path.c_str(), 0602), 0);
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { net::open_file_store(path); }), HasSubstr(path));
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { net::open_file_store(folder.path); }), HasSubstr(folder.path));
}

TEST(Store, N7_OneThatIsNotServedIsAnErrorInTimeWithoutAStack) {
  const uint16_t port = free_port();
  CapturedLog captured;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(thrown<TimeoutError>([&] { net::open_tcp_store(on_loopback, port, false, 500ms); }),
              HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
  EXPECT_EQ(captured.take(), "");
}

TEST(Store, N7_OneThatAcceptsAndNeverAnswersIsAnErrorInTime) {
  const auto [mute, port] = bound_to_loopback();
  ASSERT_EQ(::listen(mute.get(), 5), 0);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(thrown<TimeoutError>([&, silent = port] { net::open_tcp_store(on_loopback, silent, false, 500ms); }),
              HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
}

// "PORT": serves a store until it is killed.
int serve_a_store(Child& me) {
  const auto store = net::open_tcp_store(on_loopback, static_cast<uint16_t>(std::stoi(me.argument())), true, 10s);
  me.say("serves");
  me.hear();
  return 0;
}

TEST(Store, N7_OneThatStopsWhileAWorkerJoinsIsAnErrorByItsDeadline) {
  const uint16_t port = free_port();
  const auto holder = Processes().start(serve_a_store, std::to_string(port));
  holder->expect("serves");
  net::MeetingPoint here(net::open_tcp_store(on_loopback, port, false, 10s), "the stopped store");
  EXPECT_EQ(here.next_rank(), 0);
  holder->stop();
  const auto began = std::chrono::steady_clock::now();
  here.keep_to(began + 500ms);
  EXPECT_THAT(thrown<TimeoutError>([&] { here.next_rank(); }), HasSubstr("the stopped store"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 9s);
  holder->kill();
}

}  // namespace
}  // namespace gradwire::testing
