// The seam for the layers above: what rides along on messages. `rpc` knows nothing of references or gradients; a
// passenger adds a small section to a message, and handles its section when the message arrives.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "gradwire/base/error.h"
#include "gradwire/net/message.h"
#include "gradwire/net/record.h"
#include "gradwire/rpc/kept.h"
#include "gradwire/rpc/surroundings.h"
#include "gradwire/wire/bytes.h"

namespace gradwire {

class Passenger {
 public:
  // One for a message about to be sent.
  class Ticket {
   public:
    virtual ~Ticket() = default;
    // Writes the section, in the step that queues the message, for a peer that is not gone: nothing can stop it then.
    // Under the session's lock: brief, sends nothing, takes only locks under which nothing is sent. If the message
    // is never queued, the ticket is destroyed unused; else when the message has its number (it may wait for room
    // before), also under that lock.
    virtual void board(wire::ByteWriter& section) = 0;
  };
  // What came of a section, kept with the message: of a request until its function has ended, Tasks and futures
  // that it returned included; of a reply until its value was taken or it was dropped.
  class Bag {
   public:
    virtual ~Bag() = default;
    // Before the tensors are used, on the thread that uses them.
    virtual void unload(wire::Payload&) {}
    // Before the function runs: what is to be current in it.
    // May refuse the request with an error.
    virtual void enter(Surroundings&) {}
    // Of a request whose result stays here: where it goes. Lives as long as this.
    virtual Keeper* keeper() { return nullptr; }
  };

  virtual ~Passenger() = default;
  // Of its sections; the same on all workers.
  virtual uint8_t number() const = 0;
  // For every message of rpc and above, on the sending thread, before its tensors are copied. Null: not this one.
  virtual std::unique_ptr<Ticket> prepare(const net::Message& message,
                                          const std::shared_ptr<const net::Record>& to) = 0;
  // In the session's order, before anything later of that session, by whichever thread reads the link: also for a
  // message that is refused or dropped later. Brief. The tensors' bytes may still be under way.
  virtual std::unique_ptr<Bag> arrived(const std::shared_ptr<const net::Record>& from, net::MessageType type,
                                       std::string_view section,
                                       const std::vector<wire::TensorDescription>& tensors) = 0;
  // Nothing arrives from it after this.
  virtual void peer_gone(const net::Record&, GoneReason) {}
  // The worker begins to leave: calls go on until all are ready.
  virtual void begins_to_leave() {}
  // The worker leaves: all calls are over, and the others have not been told yet.
  virtual void leaving() {}
  // The worker has left, or is destroyed: nothing is sent and nothing arrives any more.
  virtual void closed() {}
};

// What all passengers brought with one message.
class Luggage {
 public:
  void add(std::unique_ptr<Passenger::Bag> bag) {
    if (bag) bags_.push_back(std::move(bag));
  }
  void unload(wire::Payload& payload) {
    for (auto& bag : bags_) bag->unload(payload);
  }
  void enter(Surroundings& surroundings) {
    for (auto& bag : bags_) bag->enter(surroundings);
  }
  Keeper* keeper() {
    for (auto& bag : bags_)
      if (Keeper* keeper = bag->keeper()) return keeper;
    return nullptr;
  }

 private:
  std::vector<std::unique_ptr<Passenger::Bag>> bags_;
};

}  // namespace gradwire
