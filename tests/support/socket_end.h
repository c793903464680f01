// A worker of the net layer on real sockets, in this process or another.
#pragma once

#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "gradwire/net/endpoint.h"
#include "gradwire/net/meeting_point.h"
#include "gradwire/net/socket_transport.h"

namespace gradwire::testing {

// Waits for a condition that other threads or processes bring about. The limit is a hundredfold of what it takes.
inline bool wait_until(const std::function<bool()>& condition, std::chrono::seconds limit = std::chrono::seconds(30)) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

// A fresh folder, gone with its owner.
// A fresh folder whose path leaves room for the name of a socket, however long TMPDIR is.
struct Folder {
  explicit Folder(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    constexpr size_t longest_parent = 60;
    std::string name = (parent.native().size() > longest_parent ? "/tmp" : parent) / "gwtest-XXXXXX";
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

// Counts and keeps what arrives; messages called "echo" go back with their payload.
class Echo : public net::SessionHandler {
 public:
  void message_arrived(net::Session& session, net::Delivery delivery) noexcept override {
    if (delivery.type == net::MessageType{17} && delivery.arrival) {
      delivery.arrival->when_settled([arrival = delivery.arrival, head = delivery.head,
                                      to = session.shared_from_this()] {
        try {
          to->send({.type = net::MessageType{16}, .head = head, .payload = arrival->take()}, net::Admission::always);
        } catch (const Error&) {
          // Whoever asked is gone.
        }
      });
      return;
    }
    MutexLock lock(mutex_);
    heads_.push_back(delivery.head);
    arrivals_.push_back(delivery.arrival);
  }
  void peer_gone(net::Session&, GoneReason reason, const std::string& why) noexcept override {
    MutexLock lock(mutex_);
    gone_.push_back(reason);
    why_ = why;
  }
  size_t count() {
    MutexLock lock(mutex_);
    return heads_.size();
  }
  std::vector<std::string> heads() {
    MutexLock lock(mutex_);
    return heads_;
  }
  std::shared_ptr<net::Arrival> arrival(size_t which) {
    MutexLock lock(mutex_);
    return arrivals_.at(which);
  }
  std::vector<GoneReason> gone() {
    MutexLock lock(mutex_);
    return gone_;
  }
  std::string why() {
    MutexLock lock(mutex_);
    return why_;
  }
  void forget() {
    MutexLock lock(mutex_);
    heads_.clear();
    arrivals_.clear();
  }

 private:
  Mutex mutex_;
  std::vector<std::string> heads_ GRADWIRE_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<net::Arrival>> arrivals_ GRADWIRE_GUARDED_BY(mutex_);
  std::vector<GoneReason> gone_ GRADWIRE_GUARDED_BY(mutex_);
  std::string why_ GRADWIRE_GUARDED_BY(mutex_);
};

struct SocketEnd {
  explicit SocketEnd(const std::string& name, net::SessionOptions options = {}, net::SocketOptions sockets = {},
                     size_t segment_bytes = size_t{1} << 30U)
      : runtime(net::Runtime::of_process()), handler(std::make_shared<Echo>()) {
    endpoint = net::Endpoint::open({.loop = runtime,
                                    .transport = net::make_socket_transport(runtime, std::move(sockets)),
                                    .budget = std::make_shared<net::SegmentBudget>(segment_bytes),
                                    .handler = handler},
                                   {.name = name, .incarnation = make_incarnation()}, options);
  }
  ~SocketEnd() { endpoint->close(); }
  const net::Record& record() const { return endpoint->record(); }
  std::shared_ptr<net::Session> session(const net::Record& peer) { return endpoint->session(peer); }

  std::shared_ptr<net::Runtime> runtime;
  std::shared_ptr<Echo> handler;
  std::shared_ptr<net::Endpoint> endpoint;
};

// A record in one line of text, to be said to another process.
inline std::string to_line(const net::Record& record) {
  wire::ByteWriter writer;
  encode(writer, record);
  std::string line;
  for (unsigned char byte : writer.bytes()) line += fmt::format("{:02x}", byte);
  return line;
}
inline net::Record from_line(const std::string& line) {
  std::string bytes;
  for (size_t i = 0; i + 1 < line.size(); i += 2) bytes += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
  wire::ByteReader reader(bytes);
  return net::decode_record(reader);
}

}  // namespace gradwire::testing
