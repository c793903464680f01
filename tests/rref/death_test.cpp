// What becomes of references when workers leave, die, or are cut off.
#include <atomic>
#include <thread>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/util/Logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gradwire/gradwire.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/rref/reference_section.h"
#include "gradwire/rref/references.h"
#include "gradwire/testing/cluster.h"
#include "gradwire/wire/id.h"

#include "tests/support/wait.h"

namespace gradwire {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::Cluster;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Function<at::Tensor(at::Tensor, double)> scale{"scale"};
constexpr Function<int64_t(int64_t)> slow{"slow"};
constexpr Function<void(int64_t, RRef<at::Tensor>)> keep{"keep"};
constexpr Function<void(int64_t)> forget{"forget"};
constexpr Function<at::Tensor(int64_t)> fetch_kept{"fetch_kept"};
constexpr Function<RRef<at::Tensor>(std::string)> make_at{"make_at"};
constexpr Function<void(std::string, int64_t)> give_kept{"give_kept"};

std::mutex mutex;
std::map<int64_t, RRef<at::Tensor>> kept;

Registry make_registry() {
  Registry registry;
  registry.add(scale, [](const at::Tensor& x, double by) { return x.mul(by); });
  registry.add(slow, [](int64_t ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    return ms;
  });
  registry.add(keep, [](int64_t key, const RRef<at::Tensor>& r) {
    const std::scoped_lock lock(mutex);
    kept.insert_or_assign(key, r);
  });
  registry.add(forget, [](int64_t key) {
    const std::scoped_lock lock(mutex);
    kept.erase(key);
  });
  registry.add(fetch_kept, [](int64_t key) {
    const RRef<at::Tensor> r = [&] {
      const std::scoped_lock lock(mutex);
      return kept.at(key);
    }();
    return r.fetch().get();
  });
  registry.add(give_kept, [](const std::string& to, int64_t key) {
    const RRef<at::Tensor> r = [&] {
      const std::scoped_lock lock(mutex);
      return kept.at(key);
    }();
    Worker::current().peer(to).call(keep, key + 1, r).get();
  });
  registry.add(make_at, [](const std::string& where) {
    return Worker::current().peer(where).remote(scale, at::ones({2}), 2.0);
  });
  return registry;
}

class ReferenceCluster : public ::testing::Test {
 protected:
  explicit ReferenceCluster(std::chrono::milliseconds peer_timeout)
      : cluster(4, make_registry(), {.peer_timeout = peer_timeout}) {}
  ~ReferenceCluster() override {
    const std::scoped_lock lock(mutex);
    kept.clear();
  }
  bool left(int rank, size_t owned) {
    return eventually([&] { return cluster[rank].debug().owned.size() == owned; });
  }
  Cluster cluster;
};

class ReferenceDeath : public ReferenceCluster {
 protected:
  ReferenceDeath() : ReferenceCluster(400ms) {}
};

// Where no one dies but by kill().
class PatientReferenceDeath : public ReferenceCluster {
 protected:
  PatientReferenceDeath() : ReferenceCluster(60s) {}
};

// The owner dies: every operation fails with OwnerGoneError, at once, and it may not be passed on.
TEST_F(ReferenceDeath, R3_OfTheOwnerFailsEveryOperationWithOwnerGoneError) {
  const RRef<at::Tensor> r = cluster[0].peer(1).remote(scale, at::ones({2}), 2.0);
  const RRef<int64_t> late = cluster[0].peer(1).remote(slow, 3000);
  r.to_here();
  const Peer dead = cluster[0].peer(1);
  const Future<int64_t> pending = late.fetch();
  cluster.kill("worker1");
  EXPECT_THROW(pending.get(), OwnerGoneError);
  EXPECT_TRUE(eventually([&] { return r.reference()->failure() != nullptr; }));
  try {
    r.to_here();
    FAIL();
  } catch (const OwnerGoneError& gone) {
    EXPECT_EQ(gone.worker(), "worker1");
    EXPECT_EQ(gone.reason(), GoneReason::died);
  }
  EXPECT_THROW((void)cluster[0].peer(2).call(keep, 1, r), OwnerGoneError);
  EXPECT_THROW(dead.remote(scale, at::ones({2}), 2.0).to_here(), OwnerGoneError);
  cluster.restart("worker1");
  EXPECT_THROW(r.to_here(), OwnerGoneError);  // another incarnation is another owner
}

TEST_F(ReferenceDeath, OfTheOwnerByGoodbyeSaysThatItLeft) {
  const RRef<at::Tensor> r = cluster[0].peer(1).remote(scale, at::ones({2}), 2.0);
  r.to_here();
  cluster.take("worker1").reset();
  EXPECT_TRUE(eventually([&] { return r.reference()->failure() != nullptr; }));
  try {
    r.to_here();
    FAIL();
  } catch (const OwnerGoneError& gone) {
    EXPECT_EQ(gone.reason(), GoneReason::left);
  }
}

// R4: a holder that died holds nothing.
TEST_F(ReferenceDeath, R4_OfAHolderReleasesWhatItHeld) {
  {
    const RRef<at::Tensor> r = cluster[0].share(at::ones({2}));
    cluster[0].peer(2).call(keep, 1, r).get();
  }
  EXPECT_TRUE(left(0, 1));
  cluster.kill("worker2");
  EXPECT_TRUE(left(0, 0));
}

// R1: the creator's death takes nothing from those who have it too.
TEST_F(ReferenceDeath, R1_OfItsCreatorLeavesItToOtherHolders) {
  const RRef<at::Tensor> r = cluster[0].peer(1).call(make_at, "worker2").get();
  EXPECT_TRUE(eventually([&] { return r.confirmed(); }));
  cluster.kill("worker1");
  EXPECT_TRUE(eventually([&] {
    const ReferenceReport report = cluster[2].debug();
    return report.owned.size() == 1 && report.owned[0].holders == std::vector<std::string>{"worker0"};
  }));
  EXPECT_TRUE(r.to_here().equal(at::full({2}, 2.0)));
}

// The one loss that cannot be prevented: a giver dies before the owner knew of its child.
TEST_F(ReferenceDeath, OfAGiverBeforeTheOwnerKnewTheChildIsReferenceLostError) {
  {
    const RRef<at::Tensor> r = cluster[0].peer(1).remote(scale, at::ones({2}), 2.0);
    r.to_here();
    cluster[0].peer(2).call(keep, 1, r).get();
  }
  EXPECT_TRUE(eventually([&] { return cluster[0].debug().empty(); }));
  // worker3 gets it from worker2 and cannot tell the owner, worker1, before worker2 is dead.
  cluster.network().cut("worker1", "worker3");
  cluster[0].peer(2).call(give_kept, "worker3", 1).get();
  cluster.kill("worker2");
  EXPECT_TRUE(left(1, 0));
  cluster.network().heal("worker1", "worker3");
  try {
    cluster[0].peer(3).call(fetch_kept, 2).get();
    FAIL();
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.origin_code(), ErrorCode::gone);
    EXPECT_THAT(error.origin_type(), HasSubstr("ReferenceLostError"));
  }
  EXPECT_TRUE(eventually([&] { return cluster[1].debug().empty(); }));
}

// RC: the creator dies before its creation arrives; who was given the reference hears so.
TEST_F(ReferenceDeath, RC_OfACreatorBeforeItsCreationArrivedIsReferenceLostError) {
  cluster.network().cut("worker0", "worker1");
  const RRef<at::Tensor> r = cluster[0].peer(1).remote(scale, at::ones({2}), 2.0);
  cluster[0].peer(2).call(keep, 1, r).get();
  const Future<at::Tensor> waits = cluster[3].peer(2).call(fetch_kept, 1);
  EXPECT_TRUE(left(1, 1));  // an empty entry waits (RW)
  EXPECT_EQ(cluster[1].debug().owned.at(0).type, "not there yet");
  cluster.kill("worker0");
  try {
    waits.get();
    FAIL();
  } catch (const RemoteError& error) {
    EXPECT_THAT(error.origin_type(), HasSubstr("ReferenceLostError")) << error.what();
  }
  EXPECT_TRUE(left(1, 0));
}

// RW: what waits for its creation is made by it.
TEST_F(ReferenceDeath, RW_AMentionBeforeTheCreationWaitsForIt) {
  cluster.network().cut("worker0", "worker1");
  const RRef<at::Tensor> r = cluster[0].peer(1).remote(scale, at::ones({2}), 2.0);
  cluster[0].peer(2).call(keep, 1, r).get();
  const Future<at::Tensor> waits = cluster[3].peer(2).call(fetch_kept, 1);
  EXPECT_TRUE(left(1, 1));
  EXPECT_FALSE(waits.done());
  cluster.network().heal("worker0", "worker1");
  EXPECT_TRUE(waits.get().equal(at::full({2}, 2.0)));
}

// RN: a child that cannot reach the owner still answers its giver, which then lets go.
TEST_F(ReferenceDeath, RN_AGiverLetsGoAlsoWhenTheOwnerIsDeadToTheChild) {
  {
    const RRef<at::Tensor> r = cluster[0].peer(1).remote(scale, at::ones({2}), 2.0);
    r.to_here();
    cluster[2].peer(1).call(scale, at::ones({1}), 1.0).get();
    cluster.network().cut("worker1", "worker2");
    EXPECT_TRUE(eventually([&] {
      try {
        cluster[2].peer(1).with_timeout(100ms).call(scale, at::ones({1}), 1.0).get();
      } catch (const PeerGoneError&) {
        return true;
      } catch (const Error&) {
      }
      return false;
    }));
    cluster[0].peer(2).call(keep, 1, r).get();
    EXPECT_THROW(cluster[0].peer(2).call(fetch_kept, 1).get(), RemoteError);
    EXPECT_TRUE(eventually([&] { return cluster[0].debug().held.at(0).pins == 0; }));
    EXPECT_TRUE(r.to_here().equal(at::full({2}, 2.0)));
  }
  EXPECT_TRUE(eventually([&] { return cluster[0].debug().empty(); }));
}

// RN: also a child whose Adopt came too late, because nothing is there any more, answers its giver.
TEST_F(PatientReferenceDeath, RN_AGiverLetsGoAlsoWhenTheOwnerSaysLost) {
  std::optional<RRef<at::Tensor>> r = cluster[0].peer(1).remote(scale, at::ones({2}), 2.0);
  r->to_here();
  // worker2 holds what the owner, worker1, does not know of, and deletes with worker0.
  cluster.network().cut("worker1", "worker2");
  cluster[0].peer(2).call(keep, 1, *r).get();
  cluster.kill("worker0");
  r.reset();
  EXPECT_TRUE(eventually([&] { return cluster[1].debug().empty(); }));
  // worker3 is told so: worker2 need not wait for it.
  cluster[3].peer(2).call(give_kept, "worker3", 1).get();
  EXPECT_TRUE(eventually([&] { return cluster[2].debug().held.at(0).pins == 0; }));
  cluster.network().heal("worker1", "worker2");
  EXPECT_NO_THROW(cluster[2].peer(1).call(scale, at::ones({1}), 1.0).get()) << "the owner was dead to the giver";
  {
    const std::scoped_lock lock(mutex);
    kept.clear();
  }
  for (int rank : {1, 2, 3}) EXPECT_TRUE(eventually([&] { return cluster[rank].debug().empty(); })) << rank;
}

TEST_F(ReferenceDeath, C22_AFetchIsNotOvertakenByTheDeleteOfTheHandleItCameFrom) {
  cluster.network().set_delay([] { return 1ms; });
  for (int i = 0; i < 50; ++i) {
    Future<at::Tensor> fetch = [&] {
      const RRef<at::Tensor> r = cluster[0].peer(1).remote(scale, at::ones({2}), i);
      return r.fetch();
    }();
    EXPECT_TRUE(fetch.get().equal(at::full({2}, i)));
  }
  EXPECT_TRUE(left(1, 0));
}

TEST_F(ReferenceDeath, ALinkThatBreaksLosesNothing) {
  {
    std::vector<RRef<at::Tensor>> all;
    for (int i = 0; i < 60; ++i) {
      all.push_back(cluster[0].peer(1).remote(scale, at::ones({2}), i));
      cluster[0].peer(2).call(keep, i, all.back()).get();
      if (i % 5 == 0) cluster.network().break_links("worker0", "worker1");
      if (i % 5 == 2) cluster.network().break_links("worker1", "worker2");
    }
    for (int i = 0; i < 60; ++i) EXPECT_TRUE(cluster[0].peer(2).call(fetch_kept, i).get().equal(at::full({2}, i)));
    const std::scoped_lock lock(mutex);
    kept.clear();
  }
  EXPECT_TRUE(eventually(
      [&] { return cluster[0].debug().empty() && cluster[1].debug().empty() && cluster[2].debug().empty(); }));
}

// A giver may take an owner for dead that others still reach.
TEST_F(PatientReferenceDeath, R3_WhatOneGiverPassedOnAsLostIsUsableOnceAnotherHasPassedItOnAlive) {
  const RRef<at::Tensor> there = cluster[3].peer(1).remote(scale, at::ones({2}), 2.0);
  there.to_here();
  const auto record = [&](int rank) { return WorkerAccess::core(cluster[rank]).exchange().self(); };
  const Reference& alive = *there.reference();
  wire::ByteWriter section;
  encode(section,
         ReferenceSection{
             .references = {{.passing = Passing::lost, .id = alive.id(), .owner = alive.owner(), .creator = record(3)}},
             .inside = {}},
         record(2)->incarnation, record(0)->incarnation);
  // As it comes with a message of worker2.
  const std::unique_ptr<Passenger::Bag> bag =
      References::of(WorkerAccess::core(cluster[0]))->arrived(record(2), net::MessageType{16}, section.bytes(), {});
  wire::Payload payload;
  bag->unload(payload);
  const RRef<at::Tensor> here(std::static_pointer_cast<ReferenceRider>(payload.riders.at(0))->reference);
  EXPECT_THROW(here.to_here(), Error) << "it came as lost";
  cluster[3].peer(0).call(keep, 1, there).get();
  EXPECT_TRUE(here.to_here().equal(at::full({2}, 2.0)));
  EXPECT_TRUE(cluster[3].peer(0).call(fetch_kept, 1).get().equal(at::full({2}, 2.0)));
}

// R1: a fork is released by its holder, or by nobody.
TEST_F(PatientReferenceDeath, R1_AReleaseFromAnotherThanTheHolderIsIgnored) {
  const RRef<at::Tensor> r = cluster[0].peer(1).remote(scale, at::ones({2}), 2.0);
  r.to_here();
  const Reference& reference = *r.reference();
  wire::ByteWriter head;
  wire::put_id(head, reference.id());
  wire::put_id(head, Id{.maker = reference.id().maker, .counter = reference.id().counter + 1});  // the creator's fork
  const std::string release = head.take();
  const auto release_from = [&](int rank) {
    const RRef<at::Tensor> any = cluster[rank].share(at::ones({1}));
    any.reference()->table()->place().exchange->tell(
        *reference.owner(), net::Message{.type = release_type, .head = release, .payload = {}});
    cluster[rank].peer(1).call(scale, at::ones({1}), 1.0).get();  // after it, in the session's order
  };
  release_from(2);
  EXPECT_EQ(cluster[1].debug().owned.at(0).holders, std::vector<std::string>{"worker0"});
  EXPECT_TRUE(r.to_here().equal(at::full({2}, 2.0)));
  release_from(0);  // the same bytes, from the holder
  EXPECT_TRUE(left(1, 0));
}

// What was dropped just before is released before the worker asks the others to leave, or they take it for forgotten.
TEST_F(PatientReferenceDeath, BeginningToLeaveReleasesAtOnceWhatWasDropped) {
  const std::shared_ptr<References> table = cluster[0].share(at::ones({1})).reference()->table();
  std::vector<RRef<at::Tensor>> all;
  for (int i = 0; i < 30; ++i) all.push_back(cluster[0].peer(1).remote(scale, at::ones({2}), 2.0));
  for (const RRef<at::Tensor>& r : all) r.to_here();
  all.clear();
  table->begins_to_leave();
  cluster[0].peer(1).call(scale, at::ones({1}), 1.0).get();  // after the releases, in the session's order
  // An entry may still wait for the owner's own tidying; no one is said to hold it.
  for (const OwnedReference& owned : cluster[1].debug().owned) EXPECT_TRUE(owned.holders.empty()) << owned.id;
}

TEST_F(PatientReferenceDeath, LeavingTellsOfTwentyThatOthersStillHoldAndCountsTheRest) {
  FLAGS_caffe2_log_level = 1;  // warnings
  const RRef<at::Tensor> own = cluster[1].share(at::ones({1}));
  std::vector<RRef<at::Tensor>> held;
  const auto told = [&] {
    ::testing::internal::CaptureStderr();
    own.reference()->table()->leaving();
    return ::testing::internal::GetCapturedStderr();
  };
  const RRef<at::Tensor> of_another = cluster[1].peer(2).remote(scale, at::ones({2}), 2.0);
  EXPECT_EQ(told(), "") << "what the owner alone has is no one's loss, and what it holds of others is not lost";
  for (int i = 0; i < 25; ++i) held.push_back(cluster[0].peer(1).remote(scale, at::ones({2}), 2.0));
  for (const RRef<at::Tensor>& r : held) r.to_here();
  const std::string many = told();
  EXPECT_THAT(many, HasSubstr("worker1 leaves, and drops what others still hold of it"));
  EXPECT_THAT(many, AllOf(HasSubstr("and 5 more"), Not(HasSubstr("of worker2"))));
  size_t lines = 0;
  for (size_t at = many.find("owned"); at != std::string::npos; at = many.find("owned", at + 1)) ++lines;
  EXPECT_EQ(lines, 20U) << many;
  held.erase(held.begin() + 20, held.end());
  EXPECT_TRUE(left(1, 21));
  EXPECT_THAT(told(), AllOf(HasSubstr("still hold"), Not(HasSubstr("more"))));
}

TEST_F(ReferenceDeath, LeavingDropsWhatRemainsAndAHandleOutlivesItsWorker) {
  std::optional<RRef<at::Tensor>> handle = cluster[0].peer(1).remote(scale, at::ones({2}), 2.0);
  auto value = std::make_shared<at::Tensor>(at::ones({2}));
  std::optional<RRef<at::Tensor>> own = cluster[0].share(value);
  handle->to_here();
  cluster.leave();
  EXPECT_TRUE(eventually([&] { return value.use_count() <= 2; }));
  EXPECT_THROW(handle->to_here(), Error);
  EXPECT_NO_THROW(to_string(*handle));
  handle.reset();
  own.reset();
  EXPECT_EQ(value.use_count(), 1);
}

}  // namespace
}  // namespace gradwire
