// The calls of one worker: those under way from here, and the functions that run for others.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <unordered_map>

#include "gradwire/base/mutex.h"
#include "gradwire/net/endpoint.h"
#include "gradwire/net/runtime.h"
#include "gradwire/rpc/future.h"
#include "gradwire/rpc/registry.h"

namespace gradwire {

// Any thread may use it.
class Calls : public net::SessionHandler, public std::enable_shared_from_this<Calls> {
 public:
  Calls(std::string name, Registry registry, std::shared_ptr<net::Runtime> runtime)
      : name_(std::move(name)), registry_(std::move(registry)), runtime_(std::move(runtime)) {}
  void attach(std::shared_ptr<net::Endpoint> endpoint) { endpoint_ = std::move(endpoint); }

  std::shared_ptr<CallState> start(const net::Record& peer, std::string_view function, wire::Payload arguments);

  void message_arrived(net::Session& session, net::Delivery delivery) noexcept override;
  void peer_gone(net::Session& session, GoneReason reason, const std::string& why) noexcept override;
  void batch_handled(net::Session& session) noexcept override;

 private:
  struct Pending {
    std::shared_ptr<CallState> state;
    Incarnation peer;
    std::string function;
  };
  struct Request {
    std::shared_ptr<net::Session> session;
    uint64_t call = 0;
    std::string function;
    std::shared_ptr<net::Arrival> arrival;
    std::string refusal;
  };
  void serve_all() noexcept;
  void serve(Request& request) noexcept;
  void finish(uint64_t call, bool failed, const std::shared_ptr<net::Arrival>& arrival, const std::string& worker);

  const std::string name_;
  const Registry registry_;
  const std::shared_ptr<net::Runtime> runtime_;
  std::shared_ptr<net::Endpoint> endpoint_;
  std::atomic<uint64_t> next_call_ = 1;
  Mutex mutex_;
  std::unordered_map<uint64_t, Pending> pending_ GRADWIRE_GUARDED_BY(mutex_);
  std::deque<Request> requests_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire
