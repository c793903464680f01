// How links come to be: by dialling a worker's address, or by listening at one's own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gradwire/net/link.h"
#include "gradwire/net/record.h"

namespace gradwire::net {

enum class DialOutcome {
  connected,
  refused,      // no one listens there, and that is final: on this host, its process is gone
  unreachable,  // no one answers there now: a network may be at fault; final only if it stays so
  failed,       // something else, in words: try again
  impossible,   // nothing was tried, because of something here: no address that may be dialled, no descriptor
};

struct DialResult {
  DialOutcome outcome = DialOutcome::failed;
  std::shared_ptr<Link> link;
  std::string why;
};

// Any thread; callbacks come from the loop, never inside the call.
class Transport {
 public:
  virtual ~Transport() = default;
  // Starts to listen, and writes the addresses into the record.
  virtual void listen(Record& mine, std::function<void(std::shared_ptr<Link>)> accepted) = 0;
  virtual void dial(const Record& peer, std::function<void(DialResult)> done) = 0;
  // Stops listening. Nothing is accepted afterwards.
  virtual void close() = 0;
};

}  // namespace gradwire::net
