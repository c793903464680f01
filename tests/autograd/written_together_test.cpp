// What a participant of a pass sends one right after the other it writes in one step: the peer is woken once.
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "gradwire/autograd/context_messages.h"
#include "gradwire/net/frame.h"
#include "gradwire/net/memory_network.h"

#include "tests/autograd/support.h"
#include "tests/support/wrapped_transport.h"

namespace gradwire::autograd {
namespace {

// The types of the messages in each write, of all links of a worker.
class Writes {
 public:
  // Links take whole writes here: each begins with a frame.
  void add(const std::string& bytes) {
    std::vector<net::MessageType> types;
    size_t at = 0;
    while (bytes.size() - at >= net::frame_header_size) {
      const net::FrameHeader header = net::decode_frame_header(std::string_view(bytes).substr(at));
      at += net::frame_header_size;
      if (header.kind == net::FrameKind::message)
        types.push_back(wire::ByteReader(std::string_view(bytes).substr(at)).take<net::MessageType>());
      at += header.payload_size;
    }
    MutexLock lock(mutex_);
    all_.push_back(std::move(types));
  }
  int with(const std::vector<net::MessageType>& wanted) {
    MutexLock lock(mutex_);
    return static_cast<int>(std::ranges::count_if(all_, [&](const auto& types) {
      return std::ranges::all_of(wanted,
                                 [&](net::MessageType type) { return std::ranges::find(types, type) != types.end(); });
    }));
  }

 private:
  Mutex mutex_;
  std::vector<std::vector<net::MessageType>> all_ GRADWIRE_GUARDED_BY(mutex_);
};

class WatchedLink : public testing::WrappedLink {
 public:
  WatchedLink(std::shared_ptr<net::Link> link, std::shared_ptr<Writes> writes)
      : WrappedLink(std::move(link)), writes_(std::move(writes)) {}
  net::Transfer write(std::span<const iovec> buffers, std::span<const int> descriptors) override {
    std::string bytes;
    for (const iovec& buffer : buffers) bytes.append(static_cast<const char*>(buffer.iov_base), buffer.iov_len);
    writes_->add(bytes);  // before anybody can have read it
    const net::Transfer transfer = WrappedLink::write(buffers, descriptors);
    EXPECT_TRUE(transfer.closed || transfer.bytes == bytes.size());
    return transfer;
  }

 private:
  const std::shared_ptr<Writes> writes_;
};

TEST(WrittenTogether, TheLastGradientGoesWithTheWordThatAParticipantIsDone) {
  constexpr int passes = 40;
  const std::shared_ptr<net::Runtime> runtime = net::Runtime::of_process();
  net::MemoryNetwork network(runtime);
  const net::StorePointer store = c10::make_intrusive<c10d::HashStore>();
  const auto writes = std::make_shared<Writes>();
  const auto watched = std::make_shared<testing::WrappedTransport>(
      network.transport(),
      [writes](std::shared_ptr<net::Link> link) { return std::make_shared<WatchedLink>(std::move(link), writes); });
  const auto root =
      Worker::join(common_functions(), {.name = "root", .store = store, .transport = network.transport()});
  const auto participant =
      Worker::join(common_functions(), {.name = "participant", .store = store, .transport = watched});
  for (int i = 0; i < passes; ++i) {
    Context context(*root);
    context.backward(root->peer("participant").call(twice, leaf(5)).get().sum());
  }
  EXPECT_EQ(writes->with({done_type}), passes);
  EXPECT_EQ(writes->with({gradient_type}), passes);
  // On a busy host the loop's thread may write the first before the second is there, even often, but not always.
  EXPECT_GT(writes->with({gradient_type, done_type}), 0);
}

}  // namespace
}  // namespace gradwire::autograd
