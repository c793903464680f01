// The graph of a step over all workers that take part in it: to be looked at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gradwire/base/id.h"

namespace gradwire::autograd {

// What one worker has of it. Travels.
struct GraphPart {
  struct Node {
    std::string name;
    bool is_leaf = false;
    // Of a send or recv node: the hop.
    uint64_t hop_maker = 0;
    uint64_t hop = 0;
    bool is_send = false;
    bool is_recv = false;
  };
  struct Edge {
    uint32_t from = 0;
    uint32_t to = 0;
  };
  std::string worker;
  std::vector<Node> nodes;
  std::vector<Edge> edges;  // the way gradients go
};

struct StepGraph {
  std::vector<GraphPart> parts;
  // Graphviz's language: a cluster for each worker, hops as dashed edges between them.
  std::string dot() const;
  // A picture: a lane for each worker, gradients go down.
  std::string svg() const;
};

}  // namespace gradwire::autograd
