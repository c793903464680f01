// This host's own addresses, what names resolve to, and routes.
#include "gradwire/net/host_addresses.h"

#include <unistd.h>

#include <array>

#include <gmock/gmock.h>

namespace gradwire::net {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;

TEST(HostAddresses, OfLoopbackBelongToThisHostAlsoWhereNoInterfaceListsThem) {
  for (const char* address : {"127.0.0.1", "127.0.1.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback(address)) << address;
    EXPECT_TRUE(belongs_to_this_host(address)) << address;
  }
  for (const char* address : {"128.0.0.1", "126.255.255.255", "::", "::2", "localhost", "", "127.1"})
    EXPECT_FALSE(is_loopback(address)) << address;
}

TEST(HostAddresses, OfInterfacesBelongToThisHostAndOthersDoNot) {
  const std::vector<InterfaceAddress> own = interface_addresses();
  EXPECT_THAT(own, Contains(Field(&InterfaceAddress::address, "127.0.0.1")));
  for (const InterfaceAddress& one : own) {
    EXPECT_TRUE(belongs_to_this_host(one.address)) << one.address;
    EXPECT_EQ(parse_address(one.address), one.address) << "each address has one form";
  }
  for (const char* address : {"203.0.113.77", "2001:db8:77::77", "worker1", ""})
    EXPECT_FALSE(belongs_to_this_host(address)) << address;
  EXPECT_TRUE(belongs_to_this_host("0.0.0.0"));
  EXPECT_TRUE(any_belongs_to_this_host({"203.0.113.77", "127.0.0.1"}));
  EXPECT_FALSE(any_belongs_to_this_host({}));
}

TEST(HostAddresses, HaveOneForm) {
  EXPECT_EQ(parse_address("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(parse_address("::ffff:192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(parse_address("2001:DB8:0:0::7"), "2001:db8::7");
  for (const char* text : {"", "localhost", "1", "1.2", "1.2.3", "0x7f000001", "1.2.3.4.5", "1.2.3.256", "[::1]",
                           "::1]", "192.0.2.7:80", " 192.0.2.7", "192.0.2.7 ", ":"})
    EXPECT_EQ(parse_address(text), std::nullopt) << '"' << text << '"';
  EXPECT_TRUE(is_unspecified("0.0.0.0"));
  EXPECT_TRUE(is_unspecified("0::0"));
  EXPECT_FALSE(is_unspecified("127.0.0.1"));
}

TEST(HostAddresses, AreWhatANameResolvesTo) {
  EXPECT_TRUE(any_belongs_to_this_host(resolve("localhost")));
  EXPECT_THAT(resolve("192.0.2.7"), ::testing::ElementsAre("192.0.2.7")) << "a number resolves to itself, once";
  // Reserved (RFC 6761): it never resolves.
  EXPECT_THAT(resolve("no-such-host.invalid"), IsEmpty());
  EXPECT_THAT(resolve(""), IsEmpty());
}

TEST(HostAddresses, ARouteBeginsAtAnOwnAddress) {
  EXPECT_EQ(address_that_routes_to("127.0.0.1"), "127.0.0.1");
  for (const InterfaceAddress& one : interface_addresses()) {
    if (!one.up || one.address.find('%') != std::string::npos) continue;
    EXPECT_EQ(address_that_routes_to(one.address), one.address) << "an own address routes to itself";
  }
  EXPECT_EQ(address_that_routes_to("localhost"), std::nullopt) << "names are not looked up here";
  const auto own = address_of_default_route();
  if (!own) GTEST_SKIP() << "this host has no default route";
  EXPECT_TRUE(belongs_to_this_host(*own)) << *own;
  EXPECT_FALSE(is_loopback(*own)) << *own;
}

}  // namespace
}  // namespace gradwire::net
