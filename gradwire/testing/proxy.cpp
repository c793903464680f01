#include "gradwire/testing/proxy.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <stdexcept>
#include <vector>

#include "gradwire/net/descriptor.h"

namespace gradwire::testing {
namespace {

struct Connection {
  net::Descriptor near, far;
  std::string to_far, to_near;
  uint64_t left;
  bool hung = false;
};

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw std::invalid_argument("the path of a proxy's socket is too long: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

// Moves what can be moved. False when the connection has ended.
bool pass(int from, int to, std::string& waiting, uint64_t& left, short readable) {
  if (waiting.empty() && readable != 0) {
    char buffer[16384];
    const ssize_t count = recv(from, buffer, std::min<uint64_t>(sizeof buffer, left), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return false;
    if (count > 0) {
      waiting.append(buffer, static_cast<size_t>(count));
      left -= static_cast<uint64_t>(count);
    }
  }
  if (!waiting.empty()) {
    const ssize_t count = send(to, waiting.data(), waiting.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN) return false;
    if (count > 0) waiting.erase(0, static_cast<size_t>(count));
  }
  return left > 0 || !waiting.empty();
}

}  // namespace

Proxy::Proxy(std::string path, std::string target, ProxyFaults faults)
    : path_(std::move(path)), target_(std::move(target)), faults_(std::move(faults)), thread_([this] { run(); }) {
  while (access(path_.c_str(), F_OK) != 0) std::this_thread::yield();
}

Proxy::~Proxy() {
  stop_ = true;
  thread_.join();
  ::unlink(path_.c_str());
}

void Proxy::run() {
  net::Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = address_of(path_);
  // Listening before it can be seen: whoever waits for the file may connect at once.
  const std::string hidden = path_ + "~";
  const sockaddr_un hidden_address = address_of(hidden);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&hidden_address), sizeof address) != 0 ||
      listen(listener.get(), 64) != 0 || rename(hidden.c_str(), path_.c_str()) != 0)
    throw std::runtime_error("a proxy cannot listen at " + path_ + ": " + std::strerror(errno));
  std::list<Connection> connections;
  while (!stop_) {
    std::vector<pollfd> watched{{listener.get(), POLLIN, 0}};
    for (Connection& connection : connections) {
      const auto events = [](const std::string& in, const std::string& out) {
        return static_cast<short>((in.empty() ? POLLIN : 0) | (out.empty() ? 0 : POLLOUT));
      };
      // What hangs is not looked at any more: poll passes over negative descriptors.
      const auto watch = [&](const net::Descriptor& end, short wanted) {
        watched.push_back({connection.hung ? -1 : end.get(), wanted, 0});
      };
      watch(connection.near, events(connection.to_far, connection.to_near));
      watch(connection.far, events(connection.to_near, connection.to_far));
    }
    poll(watched.data(), watched.size(), 20);
    if (const uint64_t delay = calm_ ? 0 : faults_.delay()) usleep(static_cast<useconds_t>(delay));
    size_t at = 1;
    for (auto connection = connections.begin(); connection != connections.end(); at += 2) {
      const bool open = connection->hung || (pass(connection->near.get(), connection->far.get(), connection->to_far,
                                                  connection->left, watched[at].revents) &&
                                             pass(connection->far.get(), connection->near.get(), connection->to_near,
                                                  connection->left, watched[at + 1].revents));
      if (!open && connection->left == 0) connection->hung = faults_.hangs();
      connection = open || connection->hung ? std::next(connection) : connections.erase(connection);
    }
    if (watched[0].revents == 0) continue;
    net::Descriptor near(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    net::Descriptor far(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un target = address_of(target_);
    if (!near || connect(far.get(), reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0) continue;
    ++connections_;
    connections.push_back({std::move(near), std::move(far), "", "", calm_ ? UINT64_MAX : faults_.bytes_until_cut()});
  }
}

}  // namespace gradwire::testing
