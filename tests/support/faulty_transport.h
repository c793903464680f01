// A transport whose links fail to read, as they would without memory: whenever "poison" is among the bytes, so many
// times as the test says.
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <string_view>

#include "gradwire/net/transport.h"

namespace gradwire::testing {

struct Faults {
  std::atomic<int> left = 0;
  std::atomic<int> happened = 0;
};

class FaultyLink : public net::Link {
 public:
  FaultyLink(std::shared_ptr<net::Link> link, std::shared_ptr<Faults> faults)
      : link_(std::move(link)), faults_(std::move(faults)) {}
  net::Transfer write(std::span<const iovec> buffers, std::span<const int> descriptors) override {
    return link_->write(buffers, descriptors);
  }
  net::Transfer read(std::span<const iovec> buffers, std::vector<net::Descriptor>& descriptors) override {
    const net::Transfer transfer = link_->read(buffers, descriptors);
    const std::string_view bytes(static_cast<const char*>(buffers.back().iov_base),
                                 std::min(transfer.bytes, buffers.back().iov_len));
    if (bytes.find("poison") == std::string_view::npos || faults_->left <= 0) return transfer;
    --faults_->left;
    ++faults_->happened;
    throw std::bad_alloc();
  }
  void close() override { link_->close(); }
  void watch(std::function<void()> readable, std::function<void()> writable) override {
    link_->watch(std::move(readable), std::move(writable));
  }
  void want_readable(bool wanted) override { link_->want_readable(wanted); }
  void want_writable() override { link_->want_writable(); }
  int descriptor() const override { return link_->descriptor(); }
  bool passes_descriptors() const override { return link_->passes_descriptors(); }
  std::string kind() const override { return link_->kind(); }

 private:
  const std::shared_ptr<net::Link> link_;
  const std::shared_ptr<Faults> faults_;
};

class FaultyTransport : public net::Transport {
 public:
  FaultyTransport(std::shared_ptr<net::Transport> transport, std::shared_ptr<Faults> faults)
      : transport_(std::move(transport)), faults_(std::move(faults)) {}
  void listen(net::Record& mine, std::function<void(std::shared_ptr<net::Link>)> accepted) override {
    transport_->listen(mine, [accepted = std::move(accepted), faults = faults_](std::shared_ptr<net::Link> link) {
      accepted(std::make_shared<FaultyLink>(std::move(link), faults));
    });
  }
  void dial(const net::Record& peer, std::function<void(net::DialResult)> done) override {
    transport_->dial(peer, [done = std::move(done), faults = faults_](net::DialResult result) {
      if (result.link) result.link = std::make_shared<FaultyLink>(std::move(result.link), faults);
      done(std::move(result));
    });
  }
  void close() override { transport_->close(); }

 private:
  const std::shared_ptr<net::Transport> transport_;
  const std::shared_ptr<Faults> faults_;
};

}  // namespace gradwire::testing
