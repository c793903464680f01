// Connections whose Hello has not been read yet. Anyone may make one, so that what they cost is bounded: their number,
// the time that they have, and the bytes that are kept for them, which is 4 KiB each until the fixed part of Hello has
// been judged.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gradwire/base/rate_limited_log.h"
#include "gradwire/net/channel.h"
#include "gradwire/net/loop.h"

namespace gradwire::net {

// Used on the loop only.
class Greeter : public std::enable_shared_from_this<Greeter> {
 public:
  // Beyond it, or beyond a quarter of the descriptors that the process may have, a random one of those that wait is
  // dropped: whoever floods a worker cannot keep an honest peer out, which says Hello as soon as it is connected.
  static constexpr size_t most_waiting = 256;
  // Of lists that are being read, of all connections together. One whose lists are larger is read while no others are.
  static constexpr size_t most_list_bytes = size_t{4} << 20U;

  struct Place {
    std::shared_ptr<Loop> loop;
    std::string name;  // of this worker, for messages to people
    Duration limit;    // from accepting to the whole Hello (L4)
    // With the fixed part of a Hello and the size of the lists behind it: nothing if it is wanted; else the frame that
    // answers it, or an empty one for none. Then the connection is closed.
    std::function<std::optional<std::string>(const Hello& fixed_part, size_t list_bytes)> refusal;
    // With a whole Hello, in a turn of its own.
    std::function<void(const std::shared_ptr<Channel>& channel, const Hello& hello)> welcome;
  };
  explicit Greeter(Place place);
  ~Greeter();

  void accept(std::shared_ptr<Link> link);
  // Closes all that wait.
  void close();

  size_t waiting() const { return greetings_.size(); }
  // Buffered for those that wait.
  size_t bytes() const;

 private:
  struct Greeting {
    std::shared_ptr<Channel> channel;
    Time deadline;
    bool judged = false;
    size_t list_bytes = 0;  // while it may be read: part of list_bytes_
    bool over = false;
  };
  using Pointer = std::shared_ptr<Greeting>;

  void read(const Pointer& greeting);
  // False if the fixed part is not there yet, or has been refused.
  bool judge(const Pointer& greeting);
  void answer(const Pointer& greeting, std::string frame);
  void end(const Pointer& greeting);
  void sweep();

  const Place place_;
  const size_t most_;
  // Held here alone: a link's callbacks must not hold what holds the link.
  std::vector<Pointer> greetings_;
  size_t list_bytes_ = 0;
  bool sweeping_ = false;
  std::minstd_rand random_;
  RateLimitedLog malformed_;
  RateLimitedLog dropped_;
};

}  // namespace gradwire::net
