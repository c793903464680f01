#include "gradwire/net/meeting_point.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <gmock/gmock.h>

#include "gradwire/testing/processes.h"

#include "../support/socket_end.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;

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

TEST(MeetingPoint, FindsRecordsOverTcpAndCanBeSharedInOneProcess) {
  // A free port: the store takes 0 for "any" only where it is held, so ask the system first.
  net::Descriptor probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(probe.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const uint16_t port = ntohs(address.sin_port);
  probe = net::Descriptor();
  auto first = net::open_tcp_store("127.0.0.1", port, true, 10s);
  // Multi-tenant: a second holder in the same process, such as torch's own process group, shares it.
  auto second = net::open_tcp_store("127.0.0.1", port, true, 10s);
  exchange(first);
  exchange(second);
}

TEST(MeetingPoint, NamesWhomItWaitedForInVain) {
  Folder folder;
  net::MeetingPoint here(net::open_file_store(folder / "store"));
  try {
    here.find("bob", 20ms);
    FAIL() << "found";
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("bob did not join within 20 ms"));
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
