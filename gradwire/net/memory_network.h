// A network inside the process: for several workers in one process, and for tests, which can make it misbehave.
//
// Faults are asked for by the names of two workers, in the words of a network: cut and heal, delay, break a connection
// so that one, both or neither side notices, end it after so many bytes, replay a connection's opening. Its order of
// events comes from the loop it was given: with a seeded loop, a run can be repeated.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gradwire/base/mutex.h"
#include "gradwire/net/loop.h"
#include "gradwire/net/transport.h"

namespace gradwire::net {

// Who notices that a connection has broken. What neither notices is half-open: bytes vanish.
enum class Noticed { by_both, by_first, by_second, by_neither };

// Any thread may use it.
class MemoryNetwork {
 public:
  explicit MemoryNetwork(std::shared_ptr<Loop> loop);

  // For one worker; its addresses are its name and incarnation on this network.
  std::shared_ptr<Transport> transport();

  // How long bytes and connections take; called for each. None by default.
  void set_delay(std::function<Duration()> delay);
  // How many bytes a direction of a link holds before its writer must wait. Small: a slow reader.
  void set_capacity(size_t bytes);

  // No bytes pass between the two, and dials hang, until healed; open connections stay open.
  void cut(const std::string& first, const std::string& second);
  void heal(const std::string& first, const std::string& second);
  // Breaks the connections between the two.
  void break_links(const std::string& first, const std::string& second, Noticed noticed = Noticed::by_both);
  // The connections between the two end after so many more bytes from first to second, in the middle of a frame or not.
  void truncate(const std::string& first, const std::string& second, size_t bytes);
  // Sends what opened the newest connection between the two once more, on a connection of its own, as a network may
  // that holds packets back.
  void replay(const std::string& first, const std::string& second);
  // Changes a byte of what first sends to second next.
  void corrupt(const std::string& first, const std::string& second);
  // Puts `with` in the place of `bytes`, which are as many, when first next writes them to second in one piece: what a
  // worker of another version would have sent.
  void replace(const std::string& first, const std::string& second, const std::string& bytes, const std::string& with);

  struct State;

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace gradwire::net
