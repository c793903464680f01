#include "gradwire/net/meeting_point.h"

#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/captured_log.h"
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
  EXPECT_EQ(here.claim_name(record, {}), std::nullopt);
  here.publish(record);
  EXPECT_EQ(here.look_up("alice"), record);
  EXPECT_EQ(here.look_up(4), record);
  EXPECT_EQ(here.look_up("bob"), std::nullopt);
}

TEST(MeetingPoint, FindsRecordsByNameAndRankInAFile) {
  Folder folder;
  exchange(net::open_file_store(folder / "store"));
}

TEST(MeetingPoint, TheNewestLifeOfANameIsFoundUnderIt) {
  Folder folder;
  net::MeetingPoint here(net::open_file_store(folder / "store"));
  const net::Record first = record_of("alice", 0), second = record_of("alice", 0);
  EXPECT_EQ(here.claim_name(first, {}), std::nullopt);
  EXPECT_EQ(here.claim_name(second, {}), first) << "the name is taken";
  EXPECT_EQ(here.claim_name(second, first), std::nullopt);
  EXPECT_EQ(here.look_up("alice"), second);
}

TEST(MeetingPoint, AGroupIsReplacedByOneWorkerAtATime) {
  net::MeetingPoint here(c10::make_intrusive<c10d::HashStore>());
  const net::MeetingPoint::Group empty = here.group();
  EXPECT_EQ(empty, net::MeetingPoint::Group());
  const net::MeetingPoint::Group mine{0, record_of("alice", 0)};
  const net::MeetingPoint::Group theirs{0, record_of("bob", 1)};
  EXPECT_EQ(here.replace_group(empty, mine), mine);
  EXPECT_EQ(here.replace_group(empty, theirs), mine);
  EXPECT_EQ(here.group(), mine);
}

TEST(MeetingPoint, N5_AGenerationIsEndedOnceAndOnlyByItsMembers) {
  net::MeetingPoint here(c10::make_intrusive<c10d::HashStore>());
  const net::MeetingPoint::Group joined{0, record_of("alice", 0)};
  const Incarnation alice = joined.joined_last->incarnation;
  EXPECT_EQ(here.replace_group({}, joined), joined);
  here.end_generation({make_incarnation()});  // alice has joined just before
  EXPECT_EQ(here.group(), joined);
  here.end_generation({alice, make_incarnation()});
  const net::MeetingPoint::Group next{.generation = 1};
  EXPECT_EQ(here.group(), next);
  here.end_generation({alice});  // by another member of the group that has ended
  EXPECT_EQ(here.group(), next);
}

TEST(MeetingPoint, WaitsForRecordsOfAllRanks) {
  const net::StorePointer store = c10::make_intrusive<c10d::HashStore>();
  net::MeetingPoint here(store, "the meeting place");
  here.publish(record_of("alice", 0));
  here.publish(record_of("carol", 2));
  EXPECT_THAT(thrown<TimeoutError>([&] { here.wait_for_ranks("alice", 4, std::chrono::steady_clock::now() + 50ms); }),
              ::testing::AllOf(HasSubstr("rank 1, 3"), HasSubstr("the meeting place")));
  std::thread others([&] {
    net::MeetingPoint there(store);
    there.publish(record_of("bob", 1));
    there.publish(record_of("dave", 3));
  });
  here.wait_for_ranks("alice", 4, std::chrono::steady_clock::now() + 60s);
  others.join();
}

TEST(MeetingPoint, N5_AGenerationSeesNothingOfTheOneBefore) {
  net::MeetingPoint here(c10::make_intrusive<c10d::HashStore>());
  const net::Record before = record_of("alice", 0);
  EXPECT_EQ(here.claim_name(before, {}), std::nullopt);
  here.add_event({.kind = net::MeetingPoint::Event::Kind::joined, .record = before});
  here.use_generation(1);
  net::MeetingPoint::EventReader reader;
  EXPECT_EQ(here.look_up("alice"), std::nullopt);
  EXPECT_THAT(here.new_events(reader), ::testing::IsEmpty());
  const net::Record after = record_of("alice", 0);
  EXPECT_EQ(here.claim_name(after, {}), std::nullopt);
  here.use_generation(0);
  EXPECT_EQ(here.look_up("alice"), before);
}

// What somebody who reaches the store can write there.
struct Forger {
  net::StorePointer store = c10::make_intrusive<c10d::HashStore>();
  net::MeetingPoint here{store, "the forged store"};
  net::MeetingPoint::EventReader reader;
  void add_event(const std::string& bytes) {
    store->set(fmt::format("gradwire/event/{}", store->add("gradwire/events", 1)), bytes);
  }
  static std::string bytes_of(const net::Record& record) {
    wire::ByteWriter writer;
    net::encode(writer, record);
    return writer.take();
  }
  std::vector<std::string> new_names() {
    std::vector<std::string> names;
    for (const auto& event : here.new_events(reader)) names.push_back(event.record.name);
    return names;
  }
};

TEST(MeetingPoint, W9_AMalformedEventIsSteppedOver) {
  Forger forger;
  forger.here.add_event({.kind = net::MeetingPoint::Event::Kind::joined, .record = record_of("alice", 0)});
  forger.add_event("not an event");
  forger.add_event("");
  forger.add_event(std::string(1, '\1') + Forger::bytes_of(record_of("no name for\na worker", 1)));
  forger.add_event(std::string(1, '\1') + Forger::bytes_of(record_of("eve", 1)) + "and more");
  forger.here.add_event({.kind = net::MeetingPoint::Event::Kind::joined, .record = record_of("bob", 2)});
  CapturedLog captured;
  EXPECT_THAT(forger.new_names(), ::testing::ElementsAre("alice", "bob"));
  const std::string log = captured.take();
  EXPECT_THAT(log, HasSubstr("gradwire/event/2"));
  EXPECT_EQ(log.find("malformed"), log.rfind("malformed")) << "one line a second: " << log;
  EXPECT_THAT(forger.new_names(), ::testing::IsEmpty());
}

TEST(MeetingPoint, W9_EventsThatAreMissingAreWaitedForTogether) {
  Forger forger;
  forger.store->add("gradwire/events", 200);
  forger.here.add_event({.kind = net::MeetingPoint::Event::Kind::joined, .record = record_of("alice", 0)});
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(forger.new_names(), ::testing::IsEmpty()) << "the missing ones may still come";
  EXPECT_LT(std::chrono::steady_clock::now() - began, 1s) << "nobody waits for them";
  std::vector<std::string> names;
  EXPECT_TRUE(wait_until([&] { return !(names = forger.new_names()).empty(); }));
  EXPECT_THAT(names, ::testing::ElementsAre("alice"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 20s) << "one wait for 200 of them";
}

TEST(MeetingPoint, W9_AnEventThatComesLateIsNotLost) {
  Forger forger;
  const int64_t number = forger.store->add("gradwire/events", 1);
  forger.here.add_event({.kind = net::MeetingPoint::Event::Kind::joined, .record = record_of("bob", 1)});
  EXPECT_THAT(forger.new_names(), ::testing::IsEmpty());
  forger.store->set(fmt::format("gradwire/event/{}", number),
                    std::string(1, '\1') + Forger::bytes_of(record_of("alice", 0)));
  EXPECT_THAT(forger.new_names(), ::testing::ElementsAre("alice", "bob"));
}

TEST(MeetingPoint, W9_AnEndlessCountOfEventsHoldsNobodyUp) {
  Forger forger;
  forger.store->add("gradwire/events", int64_t{1} << 62U);
  EXPECT_THAT(forger.new_names(), ::testing::IsEmpty());
  const auto after = std::chrono::steady_clock::now() + 1100ms;
  EXPECT_TRUE(wait_until([&] { return std::chrono::steady_clock::now() > after; }));
  EXPECT_THAT(forger.new_names(), ::testing::IsEmpty());
}

TEST(MeetingPoint, W15_ARecordThatNoWorkerWroteIsRefusedAndItsKeyNamed) {
  net::Record long_path = record_of("alice", 0);
  long_path.unix_path = std::string(5000, 'x');
  net::Record control = record_of("alice", 0);
  control.tcp_address = "host:1\x1b[31m";
  net::Record nobody = record_of("alice", 0);
  nobody.incarnation = Incarnation::none;
  for (const std::string& bytes :
       {std::string("nonsense"), Forger::bytes_of(record_of("a name\nand a line", 0)), Forger::bytes_of(long_path),
        Forger::bytes_of(control), Forger::bytes_of(nobody), Forger::bytes_of(record_of(std::string(129, 'a'), 0))}) {
    Forger forger;
    forger.store->set("gradwire/name/alice", bytes);
    EXPECT_THAT(thrown<InvalidArgumentError>([&] { forger.here.look_up("alice"); }),
                ::testing::AllOf(HasSubstr("gradwire/name/alice"), HasSubstr("the forged store")));
  }
  const std::string generation(8, '\0');
  for (const std::string& bytes : {std::string("1 2 3"), std::string(8, '\xff'), generation + "nonsense",
                                   generation + Forger::bytes_of(nobody), generation + Forger::bytes_of(control)}) {
    Forger forger;
    forger.store->set("gradwire/group", bytes);
    EXPECT_THAT(thrown<InvalidArgumentError>([&] { forger.here.group(); }),
                ::testing::AllOf(HasSubstr("gradwire/group"), HasSubstr("the forged store")));
  }
}

}  // namespace
}  // namespace gradwire::testing
