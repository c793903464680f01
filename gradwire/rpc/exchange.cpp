#include "gradwire/rpc/exchange.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>

namespace gradwire {
namespace {

// In place of a section that cannot be read: whoever waits for something of the message is told, instead of waiting.
class SpoiledBag : public Passenger::Bag {
 public:
  explicit SpoiledBag(std::string why) : why_(std::move(why)) {}
  void enter(Surroundings&) override { throw InvalidArgumentError(why_); }
  void unload(wire::Payload&) override { throw InvalidArgumentError(why_); }

 private:
  const std::string why_;
};

}  // namespace

Exchange::Sent Exchange::send(const net::Record& to, net::Message message, net::Admission admission,
                              net::Writing writing) {
  Sent sent;
  const bool to_self = to.incarnation == endpoint_->record().incarnation;
  if (!to_self) sent.session = endpoint_->session(to);
  const From peer = to_self ? self() : sent.session->peer_record();
  std::vector<std::pair<uint8_t, std::shared_ptr<Passenger::Ticket>>> tickets;
  for_each_passenger([&](Passenger& passenger) {
    if (std::unique_ptr<Passenger::Ticket> ticket = passenger.prepare(message, peer))
      tickets.emplace_back(passenger.number(), std::move(ticket));
  });
  if (!tickets.empty()) {
    message.board = [tickets = std::move(tickets)] {
      wire::ByteWriter all;
      for (const auto& [number, ticket] : tickets) {
        wire::ByteWriter section;
        ticket->board(section);
        if (section.size() == 0) continue;
        all.put(number);
        all.put_string(section.bytes());
      }
      return all.take();
    };
  }
  if (to_self)
    send_to_self(std::move(message));
  else
    sent.place = sent.session->send(std::move(message), admission, writing);
  return sent;
}

std::vector<Exchange::From> Exchange::met() const {
  std::vector<From> peers;
  for (const std::shared_ptr<net::Session>& session : endpoint_->sessions())
    peers.emplace_back(session, &session->peer());
  return peers;
}

void Exchange::tell(const net::Record& to, net::Message message) noexcept {
  try {
    send(to, std::move(message), net::Admission::always);
  } catch (const Error& error) {
    VLOG(1) << "gradwire: not sent: " << error.what();
  } catch (const std::exception& error) {
    LOG(ERROR) << "gradwire: cannot send to " << to.name << ": " << error.what();
  }
}

// In order, by one thread at a time, never inside a handler: the same as what a session promises.
void Exchange::send_to_self(net::Message message) {
  net::Delivery delivery{.type = message.type, .head = std::move(message.head)};
  delivery.arrival = net::Arrival::of(std::move(message.payload));
  {
    MutexLock lock(mutex_);
    if (closed_)
      throw PeerGoneError(
          fmt::format("{} has left: it calls no one any more, itself included", endpoint_->record().name),
          endpoint_->record().name, GoneReason::left);
    if (message.board) delivery.boarded = message.board();
    to_self_.push_back({std::move(delivery), std::move(message.board)});
    if (handing_out_) return;
    handing_out_ = true;
  }
  for (;;) {
    Queued next;
    {
      MutexLock lock(mutex_);
      if (to_self_.empty()) {
        handing_out_ = false;
        return;
      }
      next = std::move(to_self_.front());
      to_self_.pop_front();
    }
    try {
      hand_out(self(), std::move(next.delivery));
    } catch (const std::exception& error) {
      LOG(ERROR) << "gradwire: " << endpoint_->record().name << " cannot handle a message to itself: " << error.what();
    }
  }
}

void Exchange::close() {
  MutexLock lock(mutex_);
  closed_ = true;
}

void Exchange::announce_beginning_to_leave() {
  for_each_passenger([](Passenger& passenger) { passenger.begins_to_leave(); });
}

void Exchange::announce_leaving() {
  for_each_passenger([](Passenger& passenger) { passenger.leaving(); });
}

void Exchange::announce_closed() {
  for_each_passenger([](Passenger& passenger) { passenger.closed(); });
}

void Exchange::message_arrived(net::Session& session, net::Delivery delivery) {
  hand_out(session.peer_record(), std::move(delivery));
}

void Exchange::hand_out(const From& from, net::Delivery delivery) {
  try {
    Received received;
    try {
      wire::ByteReader sections(delivery.boarded);
      while (sections.remaining() > 0) {
        const auto number = sections.take<uint8_t>();
        const std::string_view section = sections.take_string();
        if (const std::shared_ptr<Passenger> rider = passenger(number))
          received.luggage.add(rider->arrived(from, delivery.type, section, delivery.tensors()));
      }
    } catch (const std::exception& error) {
      const std::string why = fmt::format("{} cannot use what {} sent along with a message: {}",
                                          endpoint_->record().name, from->name, error.what());
      LOG(WARNING) << "gradwire: " << why;
      received.luggage.add(std::make_unique<SpoiledBag>(why));
    }
    auto handler = handlers_.find(delivery.type);
    if (handler == handlers_.end()) {
      LOG(WARNING) << "gradwire: " << endpoint_->record().name << " got a message of unknown type "
                   << static_cast<int>(delivery.type) << " from " << from->name << ", and drops it";
      return;
    }
    received.message = std::move(delivery);
    handler->second(from, std::move(received));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    LOG(WARNING) << "gradwire: " << endpoint_->record().name << " cannot use a message of " << from->name << ": "
                 << error.what();
  }
}

void Exchange::peer_gone(net::Session& session, GoneReason reason, const std::string& why) noexcept {
  for_each_passenger([&](Passenger& passenger) { passenger.peer_gone(session.peer(), reason); });
  for (const GoneHandler& handler : gone_handlers_) handler(session.peer(), reason, why);
}

std::shared_ptr<Passenger> Exchange::passenger(uint8_t number) const {
  for (const std::weak_ptr<Passenger>& weak : passengers_)
    if (std::shared_ptr<Passenger> passenger = weak.lock(); passenger && passenger->number() == number)
      return passenger;
  return nullptr;
}

}  // namespace gradwire
