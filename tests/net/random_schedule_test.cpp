// S1-S4 over thousands of random schedules: what is sent, when links break and who notices, what the network delays,
// replays, truncates and holds back is drawn from a seed, which a failure prints.
#include <ATen/ops/arange.h>
#include <c10/util/Logging.h>
#include <gtest/gtest.h>

#include "tests/support/campaign.h"
#include "tests/support/net_world.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;

constexpr int shards = 8;
constexpr size_t limit = 200000;

// What one side has sent to the other, to be compared with what arrived.
struct Flow {
  std::vector<std::string> heads;
  std::vector<int64_t> tensor_sizes;  // 0: none
};

class Schedule {
 public:
  explicit Schedule(uint64_t seed) : random_(seed), world_(seed) {
    const net::SessionOptions options{.peer_timeout = 8s, .max_outgoing_bytes = limit};
    a_ = world_.node("a", options, Incarnation{random_() | 1U});
    b_ = world_.node("b", options, Incarnation{random_() | 1U});
    world_.network.set_delay([this] { return net::Duration(draw(slow_ ? 5000000 : 2000)); });
  }

  void run() {
    bool may_die = draw(4) == 0;
    const int steps = 20 + static_cast<int>(draw(40));
    for (int i = 0; i < steps; ++i) {
      act(may_die);
      world_.loop->run_for(net::Duration(draw(draw(3) == 0 ? 3000000 : 3000)));
      check_bounds();
    }
    world_.network.heal("a", "b");
    world_.network.set_capacity(256 * 1024);
    slow_ = false;
    // Many outages in a row may add up to a silence.
    may_die = may_die || outage_ > 4s;
    if (dead()) {
      ASSERT_TRUE(may_die) << "declared dead without a reason: " << why();
      // Each side hears of the other's death once (the recorder checks that), and both do.
      EXPECT_TRUE(world_.run_until([&] { return !a_.recorder->gone.empty() && !b_.recorder->gone.empty(); }, 5min));
      check_flow(to_b_, a_, b_, true);
      check_flow(to_a_, b_, a_, true);
      return;
    }
    EXPECT_TRUE(world_.run_until([&] { return dead() || settled(); }, 5min)) << "S1: not everything arrived";
    ASSERT_FALSE(dead() && !may_die) << "declared dead without a reason: " << why();
    check_flow(to_b_, a_, b_, dead());
    check_flow(to_a_, b_, a_, dead());
    if (dead()) return;
    // A link that broke unnoticed is found out by its silence first.
    EXPECT_TRUE(world_.run_until([&] { return session(a_, b_).held_bytes + session(b_, a_).held_bytes == 0; }, 1min))
        << "S3: everything was acknowledged";
    leave();
  }

 private:
  uint64_t draw(uint64_t below) { return random_() % below; }
  net::Session::Statistics session(const Node& from, const Node& to) {
    if (!from.recorder->gone.empty()) return {};
    return world_.session(from, to)->statistics();
  }
  bool dead() const { return !a_.recorder->gone.empty() || !b_.recorder->gone.empty(); }
  std::string why() const { return (a_.recorder->gone.empty() ? b_ : a_).recorder->gone.begin()->second.why; }

  void act(bool may_die) {
    const uint64_t action = draw(14);
    LOG(INFO) << "schedule: action " << action << " at " << world_.loop->now().time_since_epoch() / 1ms << " ms";
    switch (action) {
      case 0:
        world_.network.break_links("a", "b");
        break;
      case 1:
        world_.network.break_links("a", "b", net::Noticed::by_first);
        break;
      case 2:
        world_.network.break_links("a", "b", net::Noticed::by_second);
        break;
      case 3:
        world_.network.break_links("a", "b", net::Noticed::by_neither);
        break;
      case 4:
        world_.network.truncate("a", "b", draw(draw(2) == 0 ? 100 : 100000));
        break;
      case 5:
        world_.network.truncate("b", "a", draw(draw(2) == 0 ? 100 : 100000));
        break;
      case 6:
        draw(2) == 0 ? world_.network.replay("a", "b") : world_.network.replay("b", "a");
        break;
      case 7:
        world_.network.set_capacity(draw(2) == 0 ? 64 + draw(2000) : 256 * 1024);
        break;
      case 8:
        slow_ = !slow_;
        break;
      case 9:
        world_.network.cut("a", "b");
        {
          const net::Duration time = may_die && draw(3) == 0 ? net::Duration(20s) : net::Duration(draw(1000000000));
          world_.loop->run_for(time);
          outage_ += time;
        }
        world_.network.heal("a", "b");
        break;
      default:
        for (uint64_t count = draw(8); count > 0; --count) draw(2) == 0 ? send(a_, b_, to_b_) : send(b_, a_, to_a_);
    }
  }

  void send(const Node& from, const Node& to, Flow& flow) {
    net::Message message{.type = plain,
                         .head = std::to_string(flow.heads.size()) + std::string(draw(3) == 0 ? draw(3000) : 0, 'x')};
    int64_t size = 0;
    if (draw(4) == 0) {
      size = static_cast<int64_t>(1 + draw(draw(2) == 0 ? 100 : 40000));
      message.payload.tensors = {at::arange(size)};
    }
    const std::string head = message.head;
    try {
      world_.session(from, to)->send(std::move(message),
                                     draw(2) == 0 ? net::Admission::waits_for_room : net::Admission::always);
    } catch (const PeerGoneError&) {
      return;
    }
    // One that waits for room is numbered later than one that does not: only equal kinds keep their order, so the test
    // looks for each head once, and for order among the numbered.
    flow.heads.push_back(head);
    flow.tensor_sizes.push_back(size);
  }

  bool settled() {
    return world_.received(b_, a_).size() == to_b_.heads.size() &&
           world_.received(a_, b_).size() == to_a_.heads.size() && arrived(b_, a_) && arrived(a_, b_);
  }
  bool arrived(const Node& at, const Node& from) {
    for (const auto& arrival : at.recorder->arrivals[from.incarnation()])
      if (!arrival->settled()) return false;
    return true;
  }

  void check_bounds() {
    // S3: requests wait; what does not wait is bounded by what the test sends.
    for (auto stats : {session(a_, b_), session(b_, a_)}) EXPECT_LE(stats.held_bytes, limit + 60 * 8 * 330000);
  }

  void check_flow(const Flow& sent, const Node& from, const Node& to, bool only_a_part) {
    const std::vector<std::string>& got = world_.received(to, from);
    std::map<std::string, size_t> place;
    for (size_t i = 0; i < sent.heads.size(); ++i) place[sent.heads[i]] = i;
    std::set<size_t> seen;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(place.contains(got[i])) << "arrived without being sent";
      const size_t which = place[got[i]];
      ASSERT_TRUE(seen.insert(which).second) << "S1: delivered twice: " << which;
      auto arrival = to.recorder->arrivals[from.incarnation()][i];
      if (sent.tensor_sizes[which] > 0 && arrival->settled()) {
        try {
          const wire::Payload payload = arrival->take();
          ASSERT_TRUE(payload.tensors.at(0).equal(at::arange(sent.tensor_sizes[which]))) << "S1: a tensor was hurt";
        } catch (const PeerGoneError&) {
          ASSERT_TRUE(only_a_part);
        }
      }
    }
    if (only_a_part) return;
    ASSERT_EQ(got.size(), sent.heads.size()) << "S1: lost";
  }

  void leave() {
    bool left = false;
    a_.endpoint->leave(60s, [&] { left = true; });
    EXPECT_TRUE(world_.run_until([&] { return left; }, 2min));
    a_.endpoint->close();
    EXPECT_TRUE(world_.run_until([&] { return !b_.recorder->gone.empty(); }, 2min));
    EXPECT_EQ(b_.recorder->gone.begin()->second.reason, GoneReason::left) << b_.recorder->gone.begin()->second.why;
  }

  std::mt19937_64 random_;
  NetWorld world_;
  Node a_, b_;
  Flow to_a_, to_b_;
  bool slow_ = false;
  net::Duration outage_{};
};

class RandomSchedules : public ::testing::TestWithParam<int> {};

TEST_P(RandomSchedules, KeepS1ToS4) {
  // A failure prints its seed; GRADWIRE_SEED repeats it alone.
  if (const char* seed = std::getenv("GRADWIRE_SEED")) return Schedule(std::stoull(seed)).run();
  const int runs = campaign(10000) / shards;
  for (int i = 0; i < runs && !HasFailure(); ++i) {
    const uint64_t seed = static_cast<uint64_t>(GetParam()) * 1000003 + static_cast<uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    Schedule(seed).run();
  }
}

INSTANTIATE_TEST_SUITE_P(Session, RandomSchedules, ::testing::Range(0, shards));

}  // namespace
}  // namespace gradwire::testing
