// Addresses and ports as text.
#include "gradwire/net/tcp_address.h"

#include <gmock/gmock.h>

namespace gradwire::net {
namespace {

TEST(TcpAddress, IsReadAndWrittenInOneForm) {
  EXPECT_EQ(parse_tcp_address("192.0.2.7:80"), (TcpAddress{"192.0.2.7", 80}));
  EXPECT_EQ(parse_tcp_address("[FD00::7]:65535"), (TcpAddress{"fd00::7", 65535}));
  EXPECT_EQ(split_tcp_address("node7.example:29600"), (TcpAddress{"node7.example", 29600}));
  for (const char* text : {"192.0.2.7:80", "[fd00::7]:29600"}) EXPECT_EQ(to_string(*parse_tcp_address(text)), text);
}

TEST(TcpAddress, AnythingElseIsRefused) {
  for (const char* text : {"",          ":",           ":80",         "host",        "host:",
                           "host:0",    "host:65536",  "host:-1",     "host:+1",     "host: 80",
                           "host:80 ",  "fd00::7:80",  "[fd00::7]",   "[fd00::7]80", "[]:80",
                           "[host]:80", "fd00::7]:80", "[fd00::7:80", "[[::1]]:80",  "host:99999999999999999999"})
    EXPECT_EQ(split_tcp_address(text), std::nullopt) << '"' << text << '"';
  for (const char* text : {"node7:80", "1.2:80", "192.0.2.256:80", "[fd00::g]:80"})
    EXPECT_EQ(parse_tcp_address(text), std::nullopt) << '"' << text << '"';
}

TEST(PortRange, IsOnePortOrTwo) {
  EXPECT_EQ(parse_port_range("29600"), (PortRange{29600, 29600}));
  EXPECT_EQ(parse_port_range("29600-29699"), (PortRange{29600, 29699}));
  for (const char* text : {"29600", "1-65535"}) EXPECT_EQ(to_string(*parse_port_range(text)), text);
  for (const char* text : {"", "-", "0", "0-1", "1-", "-1", "2-1", "1-65536", "1-2-3", "a", " 1", "1 -2"})
    EXPECT_EQ(parse_port_range(text), std::nullopt) << '"' << text << '"';
}

}  // namespace
}  // namespace gradwire::net
