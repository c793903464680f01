// The references of a worker, for people: who keeps what alive. `worker->debug()` gives it; it can be printed.
#pragma once

#include <chrono>
#include <iosfwd>
#include <string>
#include <vector>

namespace gradwire {

struct OwnedReference {
  std::string id;
  std::string type;     // "Tensor"; "not there yet"; "failed"
  std::string creator;  // the worker's name
  std::chrono::nanoseconds age{};
  std::vector<std::string> holders;  // by name; one for each fork
  size_t handles = 0;                // at the owner itself
};

struct HeldReference {
  std::string id;
  std::string owner;
  std::string creator;
  std::chrono::nanoseconds age{};
  size_t handles = 0;
  size_t forks = 0;
  size_t pins = 0;  // given on, and not yet known to the owner
  bool confirmed = false;
};

struct ReferenceReport {
  std::vector<OwnedReference> owned;
  std::vector<HeldReference> held;
  size_t adoptions = 0;  // forks given to this worker that their owner has not answered for yet
  bool empty() const { return owned.empty() && held.empty() && adoptions == 0; }
};

std::ostream& operator<<(std::ostream& out, const ReferenceReport& report);

}  // namespace gradwire
