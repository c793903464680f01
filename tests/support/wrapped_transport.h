// A transport whose links are seen by a test: each is put into another that the test makes, and passes on what that
// does not change.
#pragma once

#include <functional>
#include <memory>

#include "gradwire/net/transport.h"

namespace gradwire::testing {

class WrappedLink : public net::Link {
 public:
  explicit WrappedLink(std::shared_ptr<net::Link> link) : link_(std::move(link)) {}
  net::Transfer write(std::span<const iovec> buffers, std::span<const int> descriptors) override {
    return link_->write(buffers, descriptors);
  }
  net::Transfer read(std::span<const iovec> buffers, std::vector<net::Descriptor>& descriptors) override {
    return link_->read(buffers, descriptors);
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
};

class WrappedTransport : public net::Transport {
 public:
  using Wrap = std::function<std::shared_ptr<net::Link>(std::shared_ptr<net::Link>)>;
  WrappedTransport(std::shared_ptr<net::Transport> transport, Wrap wrap)
      : transport_(std::move(transport)), wrap_(std::move(wrap)) {}
  void listen(net::Record& mine, std::function<void(std::shared_ptr<net::Link>)> accepted) override {
    transport_->listen(mine, [accepted = std::move(accepted), wrap = wrap_](std::shared_ptr<net::Link> link) {
      accepted(wrap(std::move(link)));
    });
  }
  void dial(const net::Record& peer, std::function<void(net::DialResult)> done) override {
    transport_->dial(peer, [done = std::move(done), wrap = wrap_](net::DialResult result) {
      if (result.link) result.link = wrap(std::move(result.link));
      done(std::move(result));
    });
  }
  void close() override { transport_->close(); }

 private:
  const std::shared_ptr<net::Transport> transport_;
  const Wrap wrap_;
};

}  // namespace gradwire::testing
