#include "gradwire/net/meeting_point.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gmock/gmock.h>

#include "gradwire/testing/processes.h"

#include "tests/support/socket_end.h"
#include "tests/support/thrown.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

net::Record record_of(const std::string& name, int rank) {
  return {.name = name,
          .rank = rank,
          .incarnation = make_incarnation(),
          .host = "h",
          .user = 3,
          .unix_path = "/p",
          .tcp_address = "t:1"};
}

void exchange(const net::StorePointer& store) {
  net::MeetingPoint here(store);
  const net::Record record = record_of("alice", 4);
  here.publish(record);
  EXPECT_EQ(here.find("alice", 10s), record);
  EXPECT_EQ(here.find(4, 10s), record);
  EXPECT_EQ(here.find(record.incarnation, 10s), record);
}

TEST(MeetingPoint, FindsRecordsByNameRankAndIncarnationInAFile) {
  Folder folder;
  exchange(net::open_file_store(folder / "store"));
}

// A socket, and the port that it was given.
std::pair<net::Descriptor, uint16_t> bound_to_loopback() {
  net::Descriptor bound(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(bound.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(bound.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return {std::move(bound), ntohs(address.sin_port)};
}

TEST(MeetingPoint, FindsRecordsOverTcpAndCanBeSharedInOneProcess) {
  // A free port: the store takes 0 for "any" only where it is held, so ask the system first.
  const uint16_t port = bound_to_loopback().second;
  auto first = net::open_tcp_store("127.0.0.1", port, true, 10s);
  // Multi-tenant: a second holder in the same process, such as torch's own process group, shares it.
  auto second = net::open_tcp_store("127.0.0.1", port, true, 10s);
  exchange(first);
  exchange(second);
}

TEST(MeetingPoint, AStoreThatCannotBeOpenedSaysWhereAndWhatToDo) {
  // Someone else's port: rank 0 cannot have it, and for the others nothing answers there.
  const auto [taken, port] = bound_to_loopback();
  const std::string place = "127.0.0.1:" + std::to_string(port);
  EXPECT_THAT(thrown<TimeoutError>([&] { net::open_tcp_store("127.0.0.1", port, false, 100ms); }),
              ::testing::AllOf(HasSubstr(place), HasSubstr("Is rank 0, which holds it, up")));
  ASSERT_EQ(::listen(taken.get(), 1), 0);
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { net::open_tcp_store("127.0.0.1", port, true, 100ms); }),
              ::testing::AllOf(HasSubstr(place), HasSubstr("Choose another port")));
}

TEST(MeetingPoint, NamesWhomItWaitedForInVain) {
  Folder folder;
  net::MeetingPoint here(net::open_file_store(folder / "store"));
  try {
    here.find("bob", 20ms);
    FAIL() << "found";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("bob did not join within 20 ms"));
  }
}

TEST(MeetingPoint, TheNewestLifeOfANameIsFoundUnderIt) {
  Folder folder;
  net::MeetingPoint here(net::open_file_store(folder / "store"));
  const net::Record first = record_of("alice", 0), second = record_of("alice", 0);
  here.publish(first);
  here.publish(second);
  EXPECT_EQ(here.find("alice", 10s), second);
  EXPECT_EQ(here.find(first.incarnation, 10s), first);
}

}  // namespace
}  // namespace gradwire::testing
