// How a worker is reached over TCP: what its options say, resolved on this host.
#include "gradwire/rpc/tcp_options.h"

#include <chrono>

#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "gradwire/base/error.h"
#include "gradwire/net/host_addresses.h"
#include "gradwire/rpc/worker.h"

#include "tests/support/host_name.h"
#include "tests/support/thrown.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::thrown;

// Reserved for documentation (RFC 5737), and no address of any host.
constexpr const char* elsewhere = "203.0.113.77";

std::string refusal(const WorkerOptions& options) {
  return thrown<InvalidArgumentError>([&] { socket_options(options); });
}

TEST(TcpOptions, W2_TcpOnLoopbackNeedsInsecureAndTheErrorNamesBothVariables) {
  for (const char* host : {"127.0.0.1", "auto", "lo"})
    EXPECT_THAT(refusal({.tcp_host = host}),
                AllOf(HasSubstr(host), HasSubstr("GRADWIRE_TCP_HOST"), HasSubstr("GRADWIRE_INSECURE=1")));
}

TEST(TcpOptions, AGroupThatMeetsOnAnotherHostNeedsTcpAndSaysSoAtOnce) {
  for (const std::optional<bool> holds_store : {std::optional<bool>(), std::optional(false), std::optional(true)}) {
    WorkerOptions options{
        .rank = 0, .world_size = 2, .master_address = elsewhere, .holds_store = holds_store, .join_timeout = 60s};
    const auto began = std::chrono::steady_clock::now();
    EXPECT_THAT(thrown<InvalidArgumentError>([&] { Worker::join(Registry(), options); }),
                AllOf(HasSubstr(std::string("MASTER_ADDR") + " (master_address) is " + elsewhere),
                      HasSubstr("GRADWIRE_TCP_HOST"), HasSubstr("GRADWIRE_INSECURE")));
    EXPECT_LT(std::chrono::steady_clock::now() - began, 20s);
  }
}

TEST(TcpOptions, AGroupThatMeetsHereOrInAFileOrInTheProgramsStoreNeedsNoTcp) {
  for (const char* address : {"127.0.0.1", "127.0.1.1", "localhost", "0.0.0.0", "::1"})
    EXPECT_EQ(refusal({.master_address = address}), "(nothing)") << address;
  for (const net::InterfaceAddress& own : net::interface_addresses())
    EXPECT_EQ(refusal({.master_address = own.address}), "(nothing)") << own.address;
  EXPECT_EQ(refusal({.store_file = "/tmp/store", .master_address = elsewhere}), "(nothing)");
  WorkerOptions given{.master_address = elsewhere};
  given.store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_EQ(refusal(given), "(nothing)");
}

// It could be another host, and then no worker would find the others.
TEST(TcpOptions, AGroupThatMeetsAtANameThatDoesNotResolveNeedsTcpAndSaysSoWithinSeconds) {
  const auto names_the_cure = AllOf(HasSubstr("MASTER_ADDR (master_address) is no-such-host.invalid"),
                                    HasSubstr("GRADWIRE_TCP_HOST"), HasSubstr("GRADWIRE_INSECURE"));
  const WorkerOptions options{
      .rank = 1, .world_size = 2, .master_address = "no-such-host.invalid", .join_timeout = 10min};
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(thrown<InvalidArgumentError>([&] { Worker::join(Registry(), options); }), names_the_cure);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 60s);
  EXPECT_THAT(refusal({.rank = 0, .master_address = "no-such-host.invalid", .join_timeout = 1ms}), names_the_cure);
  EXPECT_THAT(refusal({.master_address = "no-such-host.invalid", .holds_store = false, .join_timeout = 1ms}),
              names_the_cure);
  // Its address is known with TCP, or the store waits for it.
  EXPECT_EQ(refusal({.master_address = "no-such-host.invalid", .tcp_host = "127.0.0.1", .insecure = true}),
            "(nothing)");
}

TEST(TcpOptions, TheNameOfThisHostNeedNotResolve) {
  const std::string name = testing::name_of_this_host();
  EXPECT_EQ(refusal({.master_address = name}), "(nothing)");
  EXPECT_EQ(refusal({.master_address = name + ".no-such-domain.invalid", .join_timeout = 1ms}), "(nothing)");
  // torchrun's store is dialled there.
  EXPECT_THAT(refusal({.master_address = name + ".no-such-domain.invalid", .holds_store = false, .join_timeout = 1ms}),
              HasSubstr("GRADWIRE_TCP_HOST"));
}

TEST(TcpOptions, TheHostIsAnAddressAnInterfaceOrAutomatic) {
  const auto host = [](const std::string& given, const std::string& master = "127.0.0.1") {
    return socket_options({.master_address = master, .tcp_host = given, .insecure = true}).tcp_host;
  };
  EXPECT_EQ(host("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(host("FD00::7"), "fd00::7");
  EXPECT_EQ(host("lo"), "127.0.0.1");
  EXPECT_THAT(refusal({.tcp_host = "no-such-interface", .insecure = true}),
              AllOf(HasSubstr("GRADWIRE_TCP_HOST"), HasSubstr("no-such-interface"), HasSubstr("lo (127.0.0.1)")));
  const auto outside = net::address_of_default_route();
  if (!outside) GTEST_SKIP() << "this host has no default route, which the rest is about";
  for (const char* master : {"127.0.0.1", "127.0.1.1", "localhost"})
    EXPECT_EQ(host("auto", master), *outside) << master;
  EXPECT_EQ(host("auto", elsewhere), net::address_that_routes_to(elsewhere));
  EXPECT_EQ(host("auto", *outside), *outside);
}

TEST(TcpOptions, AutomaticWaitsForTheNameOfTheMasterNoLongerThanJoinTimeout) {
  const auto error = thrown<TimeoutError>([] {
    socket_options(
        {.master_address = "no-such-host.invalid", .tcp_host = "auto", .insecure = true, .join_timeout = 300ms});
  });
  EXPECT_THAT(error,
              AllOf(HasSubstr("no-such-host.invalid"), HasSubstr("MASTER_ADDR"), HasSubstr("GRADWIRE_TCP_HOST")));
}

TEST(TcpOptions, WhatIsAdvertisedIsANumberInTheRecord) {
  const auto advertised = [](const std::string& given) {
    return socket_options({.tcp_host = "127.0.0.1", .tcp_advertise = given, .insecure = true}).tcp_advertise;
  };
  EXPECT_EQ(advertised("192.0.2.7:29600"), "192.0.2.7:29600");
  EXPECT_EQ(advertised("[FD00::7]:29600"), "[fd00::7]:29600");
  EXPECT_THAT(advertised("localhost:29600"), ::testing::AnyOf("127.0.0.1:29600", "[::1]:29600"));
  for (const char* wrong : {"192.0.2.7", "node7", ":29600", "fd00::7:29600", "192.0.2.7:0", "no-such-host.invalid:1"})
    EXPECT_THAT(refusal({.tcp_host = "127.0.0.1", .tcp_advertise = wrong, .insecure = true}),
                AllOf(HasSubstr("GRADWIRE_TCP_ADVERTISE"), HasSubstr(wrong)));
  // The others would dial themselves.
  EXPECT_THAT(refusal({.tcp_host = "192.0.2.7", .tcp_advertise = "localhost:29600", .insecure = true}),
              AllOf(HasSubstr("GRADWIRE_TCP_ADVERTISE"), HasSubstr("localhost")));
}

}  // namespace
}  // namespace gradwire
