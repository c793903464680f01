// Sends and hands out the messages of one worker, by type: to and from its peers' sessions, and to itself without a
// link. Passengers board here.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "gradwire/base/mutex.h"
#include "gradwire/net/endpoint.h"
#include "gradwire/rpc/passenger.h"

namespace gradwire {

// A message that arrived, and what rode along.
struct Received {
  net::Delivery message;
  Luggage luggage;
};

// Any thread, once it is open.
class Exchange : public net::SessionHandler {
 public:
  // Brief: by whichever thread reads the link, in the session's order.
  using From = std::shared_ptr<const net::Record>;
  using Handler = std::function<void(const From& from, Received)>;
  using GoneHandler = std::function<void(const net::Record& peer, GoneReason reason, const std::string& why)>;

  // Before it is opened.
  void on_message(net::MessageType type, Handler handler) { handlers_[type] = std::move(handler); }
  void on_gone(GoneHandler handler) { gone_handlers_.push_back(std::move(handler)); }
  // Passengers send through this, and are the worker's own.
  void add(const std::shared_ptr<Passenger>& passenger) { passengers_.emplace_back(passenger); }
  void open(std::shared_ptr<net::Endpoint> endpoint) { endpoint_ = std::move(endpoint); }

  struct Sent {
    std::shared_ptr<net::Session> session;  // none for a message to oneself
    uint64_t place = 0;                     // for Session::wait_for_room
  };
  // Throws PeerGoneError; InvalidArgumentError for a tensor that cannot travel.
  Sent send(const net::Record& to, net::Message message, net::Admission admission,
            net::Writing writing = net::Writing::soon) GRADWIRE_EXCLUDES(mutex_);
  // Opens a session, if there is none, so that its end is noticed. Throws PeerGoneError.
  std::shared_ptr<net::Session> meet(const net::Record& peer) { return endpoint_->session(peer); }
  bool has_session_with(Incarnation peer) const { return endpoint_->find(peer) != nullptr; }
  // The peers that there are sessions with.
  std::vector<From> met() const;
  // For control messages: a peer that is gone needs none.
  void tell(const net::Record& to, net::Message message) noexcept GRADWIRE_EXCLUDES(mutex_);
  // Nothing is sent to oneself after this.
  void close() GRADWIRE_EXCLUDES(mutex_);
  // Tell the passengers.
  void announce_beginning_to_leave();
  void announce_leaving();
  // The same, when nothing can arrive any more either.
  void announce_closed();
  // Null if there is none of that number.
  std::shared_ptr<Passenger> passenger(uint8_t number) const;
  // Of this worker.
  const net::Record& record() const { return endpoint_->record(); }
  From self() const { return {endpoint_, &endpoint_->record()}; }

  void message_arrived(net::Session& session, net::Delivery delivery) override;
  void peer_gone(net::Session& session, GoneReason reason, const std::string& why) noexcept override;

 private:
  // Throws std::bad_alloc alone; a message that makes no sense is logged.
  void hand_out(const From& from, net::Delivery delivery);
  template <class Act>
  void for_each_passenger(Act act) const {
    for (const std::weak_ptr<Passenger>& weak : passengers_)
      if (const std::shared_ptr<Passenger> passenger = weak.lock()) act(*passenger);
  }
  void send_to_self(net::Message message) GRADWIRE_EXCLUDES(mutex_);

  // Constant once open.
  std::map<net::MessageType, Handler> handlers_;
  std::vector<GoneHandler> gone_handlers_;
  std::vector<std::weak_ptr<Passenger>> passengers_;
  std::shared_ptr<net::Endpoint> endpoint_;

  Mutex mutex_;
  struct Queued {
    net::Delivery delivery;
    std::function<std::string()> passengers;  // until it is handed out: what rides along is kept by no session here
  };
  std::deque<Queued> to_self_ GRADWIRE_GUARDED_BY(mutex_);
  bool handing_out_ GRADWIRE_GUARDED_BY(mutex_) = false;
  bool closed_ GRADWIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace gradwire
