// A transport whose links fail to read, as they would without memory: whenever "poison" is among the bytes, so many
// times as the test says.
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <string_view>

#include "tests/support/wrapped_transport.h"

namespace gradwire::testing {

struct Faults {
  std::atomic<int> left = 0;
  std::atomic<int> happened = 0;
};

class FaultyLink : public WrappedLink {
 public:
  FaultyLink(std::shared_ptr<net::Link> link, std::shared_ptr<Faults> faults)
      : WrappedLink(std::move(link)), faults_(std::move(faults)) {}
  net::Transfer read(std::span<const iovec> buffers, std::vector<net::Descriptor>& descriptors) override {
    const net::Transfer transfer = WrappedLink::read(buffers, descriptors);
    const std::string_view bytes(static_cast<const char*>(buffers.back().iov_base),
                                 std::min(transfer.bytes, buffers.back().iov_len));
    if (bytes.find("poison") == std::string_view::npos || faults_->left <= 0) return transfer;
    --faults_->left;
    ++faults_->happened;
    throw std::bad_alloc();
  }

 private:
  const std::shared_ptr<Faults> faults_;
};

class FaultyTransport : public WrappedTransport {
 public:
  FaultyTransport(std::shared_ptr<net::Transport> transport, std::shared_ptr<Faults> faults)
      : WrappedTransport(std::move(transport), [faults = std::move(faults)](std::shared_ptr<net::Link> link) {
          return std::make_shared<FaultyLink>(std::move(link), faults);
        }) {}
};

}  // namespace gradwire::testing
