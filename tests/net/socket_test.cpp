// Sessions over real sockets: threads and processes, Unix and TCP, segments and streams.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <random>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>

#include "gradwire/testing/processes.h"
#include "gradwire/testing/proxy.h"

#include "tests/support/campaign.h"
#include "tests/support/socket_end.h"
#include "tests/support/thrown.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto plain = net::MessageType{16};
constexpr auto echo = net::MessageType{17};

net::SocketOptions tcp_only() { return {.unix_domain = false, .tcp_host = "127.0.0.1", .insecure = true}; }

void exchange(SocketEnd& a, SocketEnd& b) {
  for (int i = 0; i < 1000; ++i)
    a.session(b.record())->send({.type = plain, .head = std::to_string(i)}, net::Admission::always);
  ASSERT_TRUE(wait_until([&] { return b.handler->count() == 1000; }));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(b.handler->heads()[i], std::to_string(i));
}

TEST(Sockets, CarrySessionsOverAUnixSocket) {
  SocketEnd a("a"), b("b");
  EXPECT_TRUE(b.record().tcp_address.empty()) << "no port is opened";
  exchange(a, b);
}

TEST(Sockets, CarrySessionsOverTcpOnLoopback) {
  SocketEnd a("a", {}, tcp_only()), b("b", {}, tcp_only());
  exchange(a, b);
}

// A dial that no one answers: the queue of the one who listens is full.
TEST(Sockets, ADialUnderWayDoesNotKeepTheRuntime) {
  const net::Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::vector<net::Descriptor> queued;
  for (int i = 0; i < 2; ++i) {
    queued.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int begun = ::connect(queued.back().get(), reinterpret_cast<sockaddr*>(&address), size);
    ASSERT_TRUE(begun == 0 || errno == EINPROGRESS);
  }
  std::weak_ptr<net::Runtime> runtime;
  {
    SocketEnd a("a", {}, tcp_only());
    runtime = a.runtime;
    a.session({.name = "silent",
               .incarnation = make_incarnation(),
               .tcp_address = fmt::format("127.0.0.1:{}", ntohs(address.sin_port))})
        ->send({.type = plain}, net::Admission::always);
    std::this_thread::sleep_for(20ms);  // the dial is under way, or was refused its place: neither may keep it
  }
  EXPECT_TRUE(wait_until([&] { return runtime.expired(); }));
}

TEST(Sockets, TakeAsTheirTcpHostOnlyANumericAddressOfThisHost) {
  const auto runtime = net::Runtime::of_process();
  const auto refusal = [&](const net::SocketOptions& options) {
    return thrown<InvalidArgumentError>([&] { net::make_socket_transport(runtime, options); });
  };
  EXPECT_EQ(refusal({.tcp_host = "192.0.2.7", .insecure = true}), "(nothing)");
  EXPECT_EQ(refusal({.tcp_host = "0.0.0.0", .tcp_advertise = "192.0.2.7:29600", .insecure = true}), "(nothing)");
  for (const char* host : {"0.0.0.0", "::", "localhost"})
    EXPECT_THAT(refusal({.tcp_host = host, .insecure = true}), HasSubstr("GRADWIRE_TCP_HOST")) << host;
  EXPECT_THAT(thrown<InvalidArgumentError>([] { SocketEnd("a", {}, {.tcp_host = "203.0.113.77", .insecure = true}); }),
              AllOf(HasSubstr("203.0.113.77"), HasSubstr("GRADWIRE_TCP_HOST")));
}

TEST(Sockets, LieInAFolderOnlyTheUserCanEnterAndLeaveNothingBehind) {
  std::filesystem::path folder;
  {
    SocketEnd a("a");
    folder = std::filesystem::path(a.record().unix_path).parent_path();
    EXPECT_EQ(std::filesystem::status(folder).permissions(), std::filesystem::perms::owner_all);
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

void round_trip(SocketEnd& a, SocketEnd& b, const at::Tensor& tensor) {
  a.handler->forget();
  a.session(b.record())->send({.type = echo, .payload = {.tensors = {tensor}}}, net::Admission::always);
  ASSERT_TRUE(wait_until([&] { return a.handler->count() == 1 && a.handler->arrival(0)->settled(); }));
  EXPECT_TRUE(a.handler->arrival(0)->take().tensors.at(0).equal(tensor));
}

TEST(Segments, CarryLargeTensorsAndAreUsedAgain) {
  SocketEnd a("a"), b("b");
  for (int i = 0; i < 20; ++i) round_trip(a, b, at::full({1024, 1024}, i));
  const auto statistics = a.session(b.record())->statistics();
  EXPECT_GE(statistics.segment_bytes, 4U << 20U);
  EXPECT_LE(statistics.segment_bytes, 16U << 20U) << "they are used again instead of made anew";
  a.handler->forget();
  EXPECT_TRUE(wait_until([&] { return a.session(b.record())->statistics().segments_lent == 0; })) << "free came back";
  EXPECT_TRUE(wait_until([&] { return b.session(a.record())->statistics().segments_lent == 0; }));
}

TEST(Segments, TheReceiversTensorIsTheSegmentAndItsOwnToWrite) {
  SocketEnd a("a"), b("b");
  const at::Tensor tensor = at::ones({1024, 1024});
  a.session(b.record())->send({.type = plain, .payload = {.tensors = {tensor}}}, net::Admission::always);
  ASSERT_TRUE(wait_until([&] { return b.handler->count() == 1; }));
  EXPECT_TRUE(b.handler->arrival(0)->settled()) << "all of it is there with its header";
  at::Tensor received = b.handler->arrival(0)->take().tensors.at(0);
  received.fill_(7);
  a.session(b.record())->send({.type = plain, .payload = {.tensors = {tensor}}}, net::Admission::always);
  ASSERT_TRUE(wait_until([&] { return b.handler->count() == 2; }));
  EXPECT_TRUE(b.handler->arrival(1)->take().tensors.at(0).equal(tensor)) << "another segment: the first is still held";
  EXPECT_TRUE(received.equal(at::full({1024, 1024}, 7)));
  EXPECT_TRUE(tensor.equal(at::ones({1024, 1024}))) << "the sender's own is untouched";
}

TEST(Segments, PastTheBoundTensorsStream) {
  SocketEnd a("a", {}, {}, 8U << 20U), b("b");
  std::vector<at::Tensor> held;
  for (int i = 0; i < 5; ++i) {
    a.session(b.record())
        ->send({.type = plain, .payload = {.tensors = {at::full({1024, 1024}, i)}}}, net::Admission::always);
    ASSERT_TRUE(
        wait_until([&] { return static_cast<int>(b.handler->count()) == i + 1 && b.handler->arrival(i)->settled(); }));
    held.push_back(b.handler->arrival(i)->take().tensors.at(0));
  }
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(held[i].equal(at::full({1024, 1024}, i)));
  EXPECT_EQ(a.session(b.record())->statistics().segment_bytes, 8U << 20U);
}

TEST(Segments, S3_BeyondWhatTheReceiverMapsTensorsStream) {
  SocketEnd a("a"), b("b", {.inbox = {.segment_bytes = 1U << 20U}});
  round_trip(a, b, at::rand({4, 1024, 1024}));
  EXPECT_GE(a.session(b.record())->statistics().links, 2U) << "the link was re-made without descriptors";
  EXPECT_EQ(a.session(b.record())->statistics().segments_lent, 0U);
}

TEST(Segments, AreNotTakenByManySmallTensors) {
  SocketEnd a("a"), b("b");
  std::vector<at::Tensor> many;
  for (int i = 0; i < 1500; ++i) many.push_back(at::full({256}, i));
  a.session(b.record())->send({.type = plain, .payload = {.tensors = many}}, net::Admission::always);
  ASSERT_TRUE(wait_until([&] { return b.handler->count() == 1 && b.handler->arrival(0)->settled(); }));
  const std::vector<at::Tensor> arrived = b.handler->arrival(0)->take().tensors;
  for (int i = 0; i < 1500; ++i) ASSERT_TRUE(arrived.at(i).equal(many[i])) << i;
  EXPECT_EQ(a.session(b.record())->statistics().segment_bytes, 0U);
}

TEST(Segments, OfAMessageThatIsNotSentComeBack) {
  SocketEnd a("a"), b("b");
  const at::Tensor large = at::ones({1024, 1024});
  round_trip(a, b, large);
  const auto session = a.session(b.record());
  EXPECT_THROW(session->send({.type = plain,
                              .payload = {.tensors = {large}},
                              .board = []() -> std::string { throw std::runtime_error("no one boards"); }},
                             net::Admission::always),
               std::runtime_error);
  EXPECT_TRUE(wait_until([&] { return session->statistics().segments_lent == 0; }));
  b.endpoint->close();
  ASSERT_TRUE(wait_until([&] { return session->ended(); }));
  for (int i = 0; i < 3; ++i)
    EXPECT_THROW(session->send({.type = plain, .payload = {.tensors = {large}}}, net::Admission::always),
                 PeerGoneError);
  EXPECT_EQ(session->statistics().segments_lent, 0U) << "none is lent to one who is gone";
  EXPECT_EQ(session->statistics().segment_bytes, 0U);
}

TEST(Segments, AreNotUsedWhereOneSideDoesNotWantThem) {
  for (bool sender : {false, true}) {
    SocketEnd a("a", {.segments = sender}), b("b", {.segments = !sender});
    round_trip(a, b, at::rand({512, 1024}));
    round_trip(a, b, at::rand({512, 1024}));
    EXPECT_EQ(a.session(b.record())->statistics().segments_lent, 0U);
  }
}

TEST(Segments, SurviveABrokenLink) {
  SocketEnd a("a"), b("b");
  for (int i = 0; i < 50; ++i) {
    a.session(b.record())
        ->send({.type = plain, .payload = {.tensors = {at::full({300000}, i)}}}, net::Admission::always);
    if (i % 5 == 0) a.session(b.record())->break_link();
    if (i % 7 == 0) b.session(a.record())->break_link();
  }
  ASSERT_TRUE(wait_until([&] { return b.handler->count() == 50; }));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(b.handler->arrival(i)->take().tensors.at(0).equal(at::full({300000}, i)));
  b.handler->forget();
  EXPECT_TRUE(wait_until([&] { return a.session(b.record())->statistics().segments_lent == 0; }));
}

TEST(Segments, ThatWerePassedBeforeABreakAreUsedAgainAfterIt) {
  SocketEnd a("a"), b("b");
  for (int i = 0; i < 3; ++i) {
    round_trip(a, b, at::rand({1024, 1024}));
    a.handler->forget();
    ASSERT_TRUE(wait_until([&] {
      return a.session(b.record())->statistics().segments_lent + b.session(a.record())->statistics().segments_lent == 0;
    }));
    a.session(b.record())->break_link();
  }
  EXPECT_EQ(a.session(b.record())->statistics().segment_bytes, 4U << 20U) << "the same one each time";
  EXPECT_THAT(a.handler->gone(), IsEmpty()) << a.handler->why();
}

TEST(Streams, CarryLargeTensorsOverTcp) {
  SocketEnd a("a", {}, tcp_only()), b("b", {}, tcp_only());
  round_trip(a, b, at::rand({4, 1024, 1024}));
  EXPECT_EQ(a.session(b.record())->statistics().segment_bytes, 0U);
}

// A worker in another process: says its record, then serves until told otherwise.
int serve(Child& me) {
  SocketEnd end("child");
  me.say(to_line(end.record()));
  me.hear();
  return 0;
}

TEST(Death, OfAProcessIsSeenAtOnceAndLeavesNothingBehind) {
  auto child = Processes().start(serve);
  const net::Record record = from_line(child->hear());
  SocketEnd a("a");
  a.session(record)->send({.type = echo, .payload = {.tensors = {at::ones({1000000})}}}, net::Admission::always);
  ASSERT_TRUE(wait_until([&] { return a.handler->count() == 1; }));
  child->kill();
  ASSERT_TRUE(wait_until([&] { return !a.handler->gone().empty(); }, 5s));  // takes some 10 ms: a bench row
  EXPECT_EQ(a.handler->gone()[0], GoneReason::died);
  EXPECT_THAT(a.handler->why(), HasSubstr("no one listens at its socket any more"));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(record.unix_path).parent_path()))
      << "its folder is tidied up";
  // What it sent in its segment is still whole.
  EXPECT_TRUE(a.handler->arrival(0)->take().tensors.at(0).equal(at::ones({1000000})));
}

TEST(Death, OfEitherSideInTheMiddleOfALargeTransferLeavesNothingBehind) {
  const auto shared_memory = [] {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      count += std::filesystem::read_symlink(entry.path(), gone).string().find("memfd:gradwire") != std::string::npos;
    }
    return count;
  };
  for (bool segments : {true, false}) {
    auto end = std::make_unique<SocketEnd>("a", net::SessionOptions{.segments = segments});
    SocketEnd& a = *end;
    std::mt19937 random(7);
    for (int i = 0; i < 20; ++i) {
      a.handler->forget();
      auto child = Processes().start(serve);
      const net::Record record = from_line(child->hear());
      const std::shared_ptr<net::Session> session = a.session(record);
      for (int k = 0; k < 5; ++k)
        session->send({.type = echo, .payload = {.tensors = {at::ones({2000000})}}}, net::Admission::always);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
      child->kill();
      ASSERT_TRUE(wait_until([&] { return a.handler->gone().size() == static_cast<size_t>(i) + 1; }));
      EXPECT_EQ(a.endpoint->find(record.incarnation), nullptr);
      EXPECT_THROW(session->send({.type = plain}, net::Admission::always), PeerGoneError);
      EXPECT_THROW(a.session(record), PeerGoneError);
      const auto statistics = session->statistics();
      EXPECT_EQ(statistics.held_bytes, 0U);
      EXPECT_EQ(statistics.segment_bytes, 0U);
    }
    // Blocks that streams used are kept for a while, but not beyond the worker.
    end.reset();
    EXPECT_TRUE(wait_until([&] { return shared_memory() == 0; })) << shared_memory() << " segments are left";
  }
}

TEST(Death, OfAStoppedProcessIsSilenceAndItGoesOnIfItWakesBefore) {
  auto child = Processes().start(serve);
  const net::Record record = from_line(child->hear());
  SocketEnd a("a", {.peer_timeout = 60s});
  child->stop();
  for (int i = 0; i < 100; ++i)
    a.session(record)->send({.type = echo, .head = std::to_string(i)}, net::Admission::always);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(a.handler->count(), 0U);
  child->signal(SIGCONT);
  EXPECT_TRUE(wait_until([&] { return a.handler->count() == 100; }));
  EXPECT_THAT(a.handler->gone(), IsEmpty());
  child->stop();
  SocketEnd impatient("b", {.peer_timeout = 800ms});
  impatient.session(record)->send({.type = echo}, net::Admission::always);
  EXPECT_TRUE(wait_until([&] { return !impatient.handler->gone().empty(); }));
  EXPECT_THAT(impatient.handler->why(), HasSubstr("nothing was heard from it"));
  child->signal(SIGCONT);
}

TEST(Sockets, N32_TheFolderOfATestsProxyIsShortWhereTmpdirIsLong) {
  const Folder outer;
  const std::string long_parent = outer / std::string(120, 't');
  std::filesystem::create_directory(long_parent);
  const Folder folder(long_parent);
  EXPECT_LT((folder / "p").size(), sizeof(sockaddr_un::sun_path));
  SocketEnd b("b");
  const Proxy proxy(folder / "p", b.record().unix_path, {});
}

TEST(Death, IsNotDeclaredWhenTheQueueOfAListenerIsFull) {
  // A listener that never accepts: its queue fills, and further dials get EAGAIN, not a refusal.
  Folder folder;
  net::Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder / "full";
  std::memcpy(address.sun_path, path.c_str(), path.size());
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 0), 0);
  net::Descriptor first(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(first.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  SocketEnd a("a");
  net::Record record = a.record();
  record.name = "full";
  record.incarnation = make_incarnation();
  record.unix_path = path;
  auto session = a.session(record);
  std::this_thread::sleep_for(200ms);
  EXPECT_FALSE(session->ended());
}

TEST(Segments, StreamInsteadWhereDescriptorsDoNotPass) {
  SocketEnd a("a"), b("b");
  Folder folder;
  Proxy proxy(folder / "p", b.record().unix_path, {});
  net::Record through = b.record();
  through.unix_path = folder / "p";
  for (int i = 0; i < 5; ++i)
    a.session(through)->send({.type = plain, .payload = {.tensors = {at::full({400000}, i)}}}, net::Admission::always);
  ASSERT_TRUE(wait_until([&] { return b.handler->count() == 5 && b.handler->arrival(4)->settled(); }));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(b.handler->arrival(i)->take().tensors.at(0).equal(at::full({400000}, i)));
  EXPECT_GE(a.session(through)->statistics().links, 2U) << "the link was re-made without descriptors";
  EXPECT_EQ(a.session(through)->statistics().segments_lent, 0U);
}

// S1-S4 on real sockets through a proxy that cuts at random bytes; both directions, both kinds of transfer.
class ProxySchedules : public ::testing::TestWithParam<int> {};

TEST_P(ProxySchedules, KeepS1ToS4) {
  for (int run = 0; run < campaign(200) / 4 && !HasFailure(); ++run) {
    const uint64_t seed = static_cast<uint64_t>(GetParam()) * 1000 + static_cast<uint64_t>(run);
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::mt19937_64 proxy_random(seed + 1);
    Folder folder;
    SocketEnd a("a", {.segments = random() % 2 == 0}), b("b");
    const uint64_t scale = proxy_random() % 2 == 0 ? 4000 : 400000;
    Proxy proxy(folder / "p", b.record().unix_path,
                {.bytes_until_cut = [&] { return 1 + proxy_random() % scale; },
                 .delay = [&] { return proxy_random() % 8 == 0 ? proxy_random() % 500 : 0; }});
    net::Record through = b.record();
    through.unix_path = folder / "p";
    auto there = a.session(through);
    std::vector<int64_t> sizes;
    for (int i = 0; i < 60; ++i) {
      const int64_t size =
          random() % 8 == 0 ? static_cast<int64_t>(random() % 60000) : static_cast<int64_t>(random() % 40);
      sizes.push_back(size);
      there->send({.type = echo, .head = std::to_string(i), .payload = {.tensors = {at::arange(size)}}},
                  net::Admission::always);
      if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    }
    // Cuts come until each has been through some; then the rest may pass.
    wait_until([&] { return proxy.connections() > 5 || a.handler->count() == 60; }, 10s);
    proxy.calm();
    ASSERT_TRUE(wait_until([&] {
      if (a.handler->count() != 60) return false;
      for (size_t i = 0; i < 60; ++i)
        if (!a.handler->arrival(i)->settled()) return false;
      return true;
    })) << a.handler->count()
        << " came back; " << a.handler->why();
    std::vector<bool> seen(60);
    for (size_t i = 0; i < 60; ++i) {
      const auto which = static_cast<size_t>(std::stoi(a.handler->heads()[i]));
      EXPECT_FALSE(seen[which]) << "S1: twice";
      seen[which] = true;
      EXPECT_TRUE(a.handler->arrival(i)->take().tensors.at(0).equal(at::arange(sizes[which])));
    }
    EXPECT_THAT(a.handler->gone(), IsEmpty()) << a.handler->why();
  }
}

INSTANTIATE_TEST_SUITE_P(Sockets, ProxySchedules, ::testing::Range(0, 4));

TEST(Sockets, AHalfOpenConnectionIsFoundOutByItsSilenceAndMadeAnew) {  // L5
  SocketEnd a("a", {.peer_timeout = 4s}), b("b", {.peer_timeout = 4s});
  Folder folder;
  std::atomic<int> hung = 0;
  Proxy proxy(folder / "p", b.record().unix_path,
              {.bytes_until_cut = [&]() -> uint64_t { return hung == 0 ? 5000 : UINT64_MAX; },
               .hangs = [&] { return hung.fetch_add(1) == 0; }});
  net::Record through = b.record();
  through.unix_path = folder / "p";
  for (int i = 0; i < 200; ++i)
    a.session(through)->send({.type = plain, .head = std::to_string(i) + std::string(100, 'x')},
                             net::Admission::always);
  ASSERT_TRUE(wait_until([&] { return b.handler->count() == 200; }));
  EXPECT_EQ(hung, 1);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(b.handler->heads()[i], std::to_string(i) + std::string(100, 'x'));
  EXPECT_THAT(a.handler->gone(), IsEmpty());
  EXPECT_THAT(b.handler->gone(), IsEmpty());
}

TEST(Sockets, C21_DescriptorsThatNoFrameAnnouncesCloseTheLink) {
  SocketEnd b("b");
  net::Descriptor peer(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, b.record().unix_path.c_str(), b.record().unix_path.size());
  ASSERT_EQ(connect(peer.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  net::Hello hello;
  hello.mine = b.record();
  hello.mine.incarnation = make_incarnation();
  hello.yours = b.record().incarnation;
  hello.attempt = 1;
  const std::string opening = net::encode_hello(hello);
  ASSERT_EQ(send(peer.get(), opening.data(), opening.size(), 0), static_cast<ssize_t>(opening.size()));
  // 50 with each ping, which has no use for them: far fewer than the process may open.
  const std::vector<int> descriptors(50, peer.get());
  std::string ping = net::encode_plain(net::FrameKind::ping);
  iovec buffer{ping.data(), ping.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(50 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(50 * sizeof(int));
  std::memcpy(CMSG_DATA(header), descriptors.data(), 50 * sizeof(int));
  for (int i = 0; i < 8 && sendmsg(peer.get(), &message, MSG_NOSIGNAL) > 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(wait_until(
      [&] {
        char bytes[4096];
        const ssize_t count = recv(peer.get(), bytes, sizeof bytes, MSG_DONTWAIT);
        return count == 0 || (count < 0 && errno == ECONNRESET);
      },
      5s));
}

TEST(Session, ManyThreadsSendAndWaitAtOnce) {
  SocketEnd a("a"), b("b");
  auto session = a.session(b.record());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      net::Waker waker;
      for (int i = 0; i < 200; ++i) {
        try {
          session->send({.type = echo, .head = "x"}, net::Admission::waits_for_room);
        } catch (const Error& error) {
          FAIL() << error.what();
        }
        // No one wakes the waker here: a short deadline, again and again, as a caller with a timeout does.
        ASSERT_TRUE(wait_until([&] {
          return session->wait(waker, [&] { return a.handler->count() > 0; }, std::chrono::steady_clock::now() + 5ms);
        })) << "nothing came back";
        if (i % 50 == 17) session->break_link();
        if (i % 50 == 33) b.session(a.record())->break_link();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(wait_until([&] { return a.handler->count() == 800; })) << a.handler->count();
  EXPECT_THAT(a.handler->gone(), IsEmpty()) << a.handler->why();
}

}  // namespace
}  // namespace gradwire::testing
