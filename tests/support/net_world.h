// Workers of the net layer on a simulated network: everything in one thread, in an order drawn from a seed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gradwire/net/endpoint.h"
#include "gradwire/net/memory_network.h"
#include "gradwire/testing/simulated_loop.h"

namespace gradwire::testing {

inline constexpr auto plain = net::MessageType{16};

// The heads "0", "1"... of so many messages.
inline std::vector<std::string> numbers(int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) texts.push_back(std::to_string(i));
  return texts;
}

// Remembers what arrives, and checks on the way what must always hold: S1's order is left to the reader, S2 is not.
class Recorder : public net::SessionHandler {
 public:
  struct Gone {
    GoneReason reason;
    std::string why;
  };
  void message_arrived(net::Session& session, net::Delivery delivery) noexcept override {
    EXPECT_FALSE(gone.contains(session.peer().incarnation))
        << "S2: delivered after the death of " << session.peer().name;
    heads[session.peer().incarnation].push_back(delivery.head);
    refusals.push_back(delivery.refusal);
    arrivals[session.peer().incarnation].push_back(delivery.arrival);
    if (when_arrived) when_arrived(session, delivery);
  }
  void peer_gone(net::Session& session, GoneReason reason, const std::string& why) noexcept override {
    EXPECT_TRUE(gone.emplace(session.peer().incarnation, Gone{reason, why}).second)
        << "S2: the death of " << session.peer().name << " was announced twice";
    if (when_gone) when_gone(session);
  }
  std::map<Incarnation, std::vector<std::string>> heads;
  std::map<Incarnation, std::vector<std::shared_ptr<net::Arrival>>> arrivals;
  std::map<Incarnation, Gone> gone;
  std::vector<std::string> refusals;
  std::function<void(net::Session&, net::Delivery&)> when_arrived;
  std::function<void(net::Session&)> when_gone;
};

struct Node {
  std::shared_ptr<Recorder> recorder;
  std::shared_ptr<net::Endpoint> endpoint;
  Incarnation incarnation() const { return endpoint->record().incarnation; }
  const std::string& name() const { return endpoint->record().name; }
};

class NetWorld {
 public:
  explicit NetWorld(uint64_t seed = 1) : loop(std::make_shared<SimulatedLoop>(seed)), network(loop) {}

  ~NetWorld() { loop->clear(); }

  // With a transport of this network unless another is given.
  Node node(const std::string& name, net::SessionOptions options = {}, Incarnation incarnation = make_incarnation(),
            std::shared_ptr<net::Transport> transport = nullptr) {
    auto recorder = std::make_shared<Recorder>();
    auto endpoint = net::Endpoint::open({.loop = loop,
                                         .transport = transport ? std::move(transport) : network.transport(),
                                         .budget = std::make_shared<net::SegmentBudget>(0),
                                         .handler = recorder},
                                        {.name = name, .incarnation = incarnation}, options);
    return {recorder, endpoint};
  }
  std::shared_ptr<net::Session> session(const Node& from, const Node& to) {
    return from.endpoint->session(to.endpoint->record());
  }
  void send(const Node& from, const Node& to, const std::string& head,
            net::Admission admission = net::Admission::always) {
    session(from, to)->send({.type = plain, .head = head}, admission);
  }
  const std::vector<std::string>& received(const Node& at, const Node& from) {
    return at.recorder->heads[from.incarnation()];
  }
  bool run_until(const std::function<bool()>& condition, net::Duration limit = std::chrono::minutes(10)) {
    return loop->run_until(condition, limit);
  }
  bool linked(const Node& a, const Node& b) {
    return session(a, b)->statistics().linked && session(b, a)->statistics().linked;
  }
  // Brings about a session by a first message, "x", and runs until both have its link.
  void link(const Node& a, const Node& b) {
    send(a, b, "x");
    EXPECT_TRUE(run_until([&] { return linked(a, b); }));
  }

  std::shared_ptr<SimulatedLoop> loop;
  net::MemoryNetwork network;
};

// A peer that speaks frames by hand: what a broken or hostile worker might.
class RawPeer {
 public:
  RawPeer(NetWorld& world, std::string name, Incarnation incarnation = make_incarnation())
      : world_(world), transport_(world.network.transport()) {
    record.name = std::move(name);
    record.incarnation = incarnation;
    transport_->listen(record,
                       [this](std::shared_ptr<net::Link> link) { accepted.push_back(attach(std::move(link))); });
  }
  struct Connection {
    std::shared_ptr<net::Channel> channel;
    std::vector<std::pair<net::FrameHeader, std::string>> frames;
    std::vector<net::Chunk> chunks;  // those that began; their bytes are dropped
    bool closed = false;
    void write(std::string bytes) {
      const iovec buffer{bytes.data(), bytes.size()};
      channel->link().write({&buffer, 1}, {});
    }
    const net::FrameHeader* find(net::FrameKind kind) const {
      for (const auto& [header, payload] : frames)
        if (header.kind == kind) return &header;
      return nullptr;
    }
  };
  std::shared_ptr<Connection> dial(const net::Record& peer) {
    std::shared_ptr<Connection> connection;
    transport_->dial(peer, [&](const net::DialResult& result) { connection = attach(result.link); });
    world_.run_until([&] { return connection != nullptr; });
    return connection;
  }
  // Runs until it was dialled and the dialler has said its first frame, which should be Hello.
  std::shared_ptr<Connection> dialled() {
    EXPECT_TRUE(world_.run_until([&] { return !accepted.empty() && !accepted[0]->frames.empty(); }));
    return accepted.at(0);
  }
  net::Hello hello(const Node& to, uint64_t attempt = 1) const {
    net::Hello hello;
    hello.mine = record;
    hello.yours = to.incarnation();
    hello.attempt = attempt;
    return hello;
  }
  static std::string frame(net::FrameKind kind, const std::string& payload, uint64_t number = 0) {
    std::string bytes;
    net::encode(bytes, {.payload_size = static_cast<uint32_t>(payload.size()), .kind = kind, .number = number});
    return bytes + payload;
  }
  // A message frame with this number.
  static inline const auto blocks = std::make_shared<net::Blocks>(nullptr, std::make_shared<net::SegmentBudget>(0));
  static std::string message(uint64_t number, const std::string& head, uint64_t acknowledged = 0,
                             net::MessageType type = plain) {
    net::Outgoing outgoing;
    net::encode_message(outgoing, {.type = type, .head = head}, nullptr, *blocks);
    net::patch_number(outgoing.frame.data(), number);
    net::patch_acknowledged(outgoing.frame.data(), acknowledged);
    return outgoing.frame;
  }
  void close() { transport_->close(); }

  net::Record record;
  std::vector<std::shared_ptr<Connection>> accepted;

 private:
  static std::shared_ptr<Connection> attach(std::shared_ptr<net::Link> link) {
    auto connection = std::make_shared<Connection>();
    connection->channel = std::make_shared<net::Channel>(std::move(link));
    connection->channel->link().watch(
        [weak = std::weak_ptr(connection)] {
          auto self = weak.lock();
          if (!self) return;
          const net::Transfer transfer = self->channel->fill();
          for (;;) {
            auto event = self->channel->next();
            if (event.kind == net::Channel::EventKind::none) break;
            if (event.kind == net::Channel::EventKind::chunk_begins) self->chunks.push_back(event.chunk);
            if (event.kind == net::Channel::EventKind::frame)
              self->frames.emplace_back(event.header, std::string(event.payload));
          }
          if (transfer.closed) {
            self->closed = true;
            self->channel->link().close();
          }
        },
        [] {});
    connection->channel->link().want_readable(true);
    return connection;
  }
  NetWorld& world_;
  std::shared_ptr<net::Transport> transport_;
};

}  // namespace gradwire::testing
