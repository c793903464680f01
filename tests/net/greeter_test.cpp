// Connections that have not said who they are: how many there may be, and what they may cost.
#include "gradwire/net/greeter.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include <gmock/gmock.h>

#include "tests/support/net_world.h"
#include "tests/support/socket_end.h"

namespace gradwire::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;

// A link that brings what a test puts in, and remembers what was written to it.
class HeldLink : public net::Link {
 public:
  explicit HeldLink(std::string bytes) : bytes_(std::move(bytes)) {}
  net::Transfer write(std::span<const iovec> buffers, std::span<const int>) override {
    for (const iovec& buffer : buffers) written.append(static_cast<const char*>(buffer.iov_base), buffer.iov_len);
    return {.bytes = buffers[0].iov_len};
  }
  net::Transfer read(std::span<const iovec> buffers, std::vector<net::Descriptor>&) override {
    size_t count = 0;
    for (const iovec& buffer : buffers) {
      const size_t part = std::min(buffer.iov_len, bytes_.size() - count);
      std::memcpy(buffer.iov_base, bytes_.data() + count, part);
      count += part;
    }
    bytes_.erase(0, count);
    return {.bytes = count};
  }
  void close() override { closed = true; }
  void watch(std::function<void()> readable, std::function<void()>) override { readable_ = std::move(readable); }
  void want_readable(bool) override {}
  void want_writable() override {}
  int descriptor() const override { return -1; }
  bool passes_descriptors() const override { return false; }
  std::string kind() const override { return "held"; }
  // As the loop would: as long as there is something to read.
  void tell() {
    for (size_t before = SIZE_MAX; !closed && !bytes_.empty() && bytes_.size() < before;) {
      before = bytes_.size();
      readable_();
    }
  }
  size_t unread() const { return bytes_.size(); }

  std::string written;
  bool closed = false;

 private:
  std::string bytes_;
  std::function<void()> readable_;
};

// A greeter that wants every Hello.
struct Hall {
  std::shared_ptr<HeldLink> accept(std::string bytes) {
    auto link = std::make_shared<HeldLink>(std::move(bytes));
    greeter->accept(link);
    link->tell();
    return link;
  }
  std::shared_ptr<SimulatedLoop> loop = std::make_shared<SimulatedLoop>(1);
  std::vector<net::Hello> welcomed;
  std::optional<std::string> refusal;
  std::shared_ptr<net::Greeter> greeter = std::make_shared<net::Greeter>(net::Greeter::Place{
      .loop = loop,
      .name = "a",
      .limit = 1s,
      .refusal = [this](const net::Hello&, size_t) { return refusal; },
      .welcome = [this](const std::shared_ptr<net::Channel>&, const net::Hello& hello) { welcomed.push_back(hello); }});
};

net::Hello hello_of(uint64_t incarnation) {
  net::Hello hello;
  hello.mine = {.name = "peer", .incarnation = Incarnation{incarnation}};
  return hello;
}

// The beginning of a Hello that announces 16 MiB, without an end of its fixed part.
std::string endless() {
  std::string bytes;
  net::encode(bytes, {.payload_size = net::largest_frame_payload, .kind = net::FrameKind::hello});
  net::Hello hello = hello_of(7);
  hello.mine.host = std::string(3900, 'h');
  const std::string payload = net::encode_hello(hello).substr(net::frame_header_size);
  return bytes + payload.substr(0, payload.size() - net::empty_lists_size - 1);
}

TEST(Greeter, W5_TenThousandConnectionsWithoutHelloKeepLessThanEightMegabytes) {
  Hall hall;
  std::vector<std::shared_ptr<HeldLink>> links;
  for (int i = 0; i < 10000; ++i) {
    links.push_back(hall.accept(endless()));
    ASSERT_LE(hall.greeter->waiting(), net::Greeter::most_waiting);
    ASSERT_LE(hall.greeter->bytes(), size_t{8} << 20U);
  }
  EXPECT_EQ(hall.greeter->waiting(), net::Greeter::most_waiting);
  EXPECT_EQ(std::count_if(links.begin(), links.end(), [](const auto& link) { return !link->closed; }),
            net::Greeter::most_waiting);
  hall.accept(net::encode_hello(hello_of(8)));
  hall.loop->run_for(1ms);
  EXPECT_EQ(hall.welcomed.size(), 1U) << "an honest peer gets in all the same";
  hall.loop->run_for(1s);
  EXPECT_EQ(hall.greeter->waiting(), 0U) << "L4: the timer has closed them";
  for (const auto& link : links) EXPECT_TRUE(link->closed);
}

TEST(Greeter, W5_ListsOfAllConnectionsTogetherAreBounded) {
  Hall hall;
  net::Hello hello = hello_of(7);
  hello.segments.resize((size_t{3} << 20U) / net::listed_segment_size);
  const std::string all = net::encode_hello(hello);
  const std::string most = all.substr(0, all.size() - 1);
  auto first = hall.accept(most);
  EXPECT_FALSE(first->closed);
  for (int i = 0; i < 255; ++i) {
    EXPECT_TRUE(hall.accept(most)->closed);
    ASSERT_LE(hall.greeter->bytes(), size_t{8} << 20U);
  }
  EXPECT_FALSE(hall.accept(net::encode_hello(hello_of(8)).substr(0, 50))->closed) << "others have no lists yet";
  hall.loop->run_for(1s);
  EXPECT_TRUE(first->closed);
  hall.accept(all);
  hall.loop->run_for(1ms);
  ASSERT_EQ(hall.welcomed.size(), 1U);
  EXPECT_EQ(hall.welcomed[0].segments.size(), hello.segments.size());
}

TEST(Greeter, W5_AHelloWhoseListsAreLargerThanAllMayTakeIsReadAlone) {
  Hall hall;
  net::Hello hello = hello_of(7);
  hello.unfinished_bulks.resize((size_t{12} << 20U) / net::listed_bulk_size);
  auto link = hall.accept(net::encode_hello(hello));
  hall.loop->run_for(1ms);
  ASSERT_EQ(hall.welcomed.size(), 1U);
  EXPECT_EQ(hall.welcomed[0].unfinished_bulks.size(), hello.unfinished_bulks.size());
}

TEST(Greeter, W5_AHelloThatIsRefusedHasItsListsUnread) {
  Hall hall;
  hall.refusal = net::encode_plain(net::FrameKind::not_me);
  net::Hello hello = hello_of(7);
  hello.segments.resize(1000000);
  auto link = hall.accept(net::encode_hello(hello));
  EXPECT_TRUE(link->closed);
  EXPECT_EQ(link->written, *hall.refusal);
  EXPECT_GT(link->unread(), size_t{7} << 20U);
}

TEST(Greeter, W5_AFixedPartOfMoreThanFourKibibytesIsMalformed) {
  for (const size_t size : {size_t{4096}, size_t{1} << 20U, size_t{15} << 20U}) {
    Hall hall;
    net::Hello hello = hello_of(7);
    hello.mine.host = std::string(size, 'h');
    auto link = hall.accept(net::encode_hello(hello));
    EXPECT_TRUE(link->closed) << size;
    hall.loop->run_for(1ms);
    EXPECT_THAT(hall.welcomed, IsEmpty());
  }
}

TEST(Greeter, AHelloIsReadByteByByteToo) {
  net::Hello hello = hello_of(7);
  hello.mine.unix_path = "/tmp/s";
  hello.segments = {1, 2, 3};
  const std::string bytes = net::encode_hello(hello);
  const std::string payload = bytes.substr(net::frame_header_size);
  const size_t fixed = payload.size() - net::empty_lists_size - 3 * net::listed_segment_size;
  for (size_t size = 0; size <= payload.size(); ++size) {
    const auto part = net::decode_fixed_part(payload.substr(0, size));
    // Nothing, then everything; the version alone is known before only where it is another.
    ASSERT_EQ(part.has_value(), size >= fixed) << size;
    if (part) {
      EXPECT_EQ(part->size, fixed);
      EXPECT_EQ(part->hello.mine, hello.mine);
    }
  }
}

// Of the system's sockets.
struct RawSocket {
  explicit RawSocket(const net::Record& peer) : socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, peer.unix_path.c_str());
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  // Whether the other side has closed it; waits until it has, or for the limit.
  bool closed(std::chrono::seconds limit = 5s) const {
    return wait_until(
        [&] {
          char byte;
          return recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
        },
        limit);
  }
  net::Descriptor socket;
};

TEST(Greeter, W5_DescriptorsInFrontOfHelloCloseTheConnection) {
  SocketEnd end("a");
  RawSocket raw(end.record());
  std::array<int, 16> descriptors;
  descriptors.fill(raw.socket.get());
  std::string bytes = net::encode_hello(hello_of(7)).substr(0, 10);
  iovec buffer{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
  msghdr message{.msg_iov = &buffer, .msg_iovlen = 1, .msg_control = control.data(), .msg_controllen = control.size()};
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
  ASSERT_EQ(sendmsg(raw.socket.get(), &message, 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_TRUE(raw.closed());
}

TEST(Greeter, W5_AWorkerServesItsMembersWhileStrangersConnect) {
  // No timer closes a stranger's connection while this test runs.
  SocketEnd a("a", {.peer_timeout = 1h}), b("b");
  std::vector<std::unique_ptr<RawSocket>> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(std::make_unique<RawSocket>(a.record()));
    const std::string begun = endless();
    ASSERT_EQ(send(strangers.back()->socket.get(), begun.data(), begun.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(begun.size()));
  }
  b.session(a.record())->send({.type = net::MessageType{16}, .head = "heard"}, net::Admission::always);
  EXPECT_TRUE(wait_until([&] { return a.handler->count() == 1; }));
  const auto dropped = [&] {
    return std::count_if(strangers.begin(), strangers.end(), [](const auto& stranger) { return stranger->closed(0s); });
  };
  EXPECT_TRUE(wait_until([&] { return dropped() >= 300 - static_cast<int>(net::Greeter::most_waiting); }));
}

TEST(Channel, W5_ABufferThatALargeFrameMadeIsGivenBack) {
  const std::string large = RawPeer::frame(net::FrameKind::pong, std::string(size_t{8} << 20U, 'x'));
  const std::string small = RawPeer::frame(net::FrameKind::pong, "x");
  net::Channel channel(std::make_shared<HeldLink>(large + small));
  const auto read_one = [&] {
    for (int i = 0; i < 10000; ++i) {
      const net::Channel::Event event = channel.next();
      if (event.kind == net::Channel::EventKind::frame) return event.payload.size();
      channel.fill();
    }
    return size_t{0};
  };
  ASSERT_EQ(read_one(), size_t{8} << 20U);
  EXPECT_GT(channel.capacity(), size_t{8} << 20U);
  EXPECT_LE(channel.capacity(), net::frame_header_size + net::largest_frame_payload);
  ASSERT_EQ(read_one(), 1U);
  channel.fill();
  EXPECT_LE(channel.capacity(), size_t{256} << 10U);
}

}  // namespace
}  // namespace gradwire::testing
