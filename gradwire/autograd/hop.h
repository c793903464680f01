// A hop is one differentiable message: a send node at its sender, a recv node at its receiver, joined by an id that the
// sender made. What a hop depends on, transitively, is its lineage: docs/gradients.md, "Lineage".
#pragma once

#include <memory>
#include <vector>

#include "gradwire/base/id.h"
#include "gradwire/net/record.h"

namespace gradwire::autograd {

using RecordPointer = std::shared_ptr<const net::Record>;

// A hop that another depends on.
struct Ancestor {
  Id hop;
  RecordPointer sender;
  // What it depends on itself is not in the same list: its sender knows.
  bool open = false;
};

// A hop as its receiver knows it. Constant.
struct ReceivedHop {
  Id hop;
  RecordPointer sender;
  bool open = false;
  // Closed under "depends on", but for the open ones, and for those that the receiver sent itself.
  std::vector<Ancestor> ancestors;
};
using ReceivedHopPointer = std::shared_ptr<const ReceivedHop>;

}  // namespace gradwire::autograd
