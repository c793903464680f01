// One worker's part of a backward pass, in torch's own engine: one graph task, in which each node runs once, when all
// its gradients are there, those from other workers included.
//
// The engine is made to wait for gradients by a pump: a node of ours that runs when nothing else can, waits for the
// next gradient, hands it to its send node, and queues itself again. So all of it happens on the thread that runs the
// pass.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <torch/csrc/autograd/engine.h>

#include "gradwire/autograd/pass.h"
#include "gradwire/autograd/walk.h"

namespace gradwire::autograd {

// One thread.
class LocalPass {
 public:
  using Tensors = torch::autograd::variable_list;
  struct Host {
    // Waits until the pass has a gradient or has failed, at most so long.
    std::function<void(net::Duration)> wait;
    // B3: the gradient of a hop that was received here. Written at once, or together with what follows soon.
    std::function<void(const ReceivedHop&, Tensors, bool at_once)> send_back;
    // Writes what was sent back.
    std::function<void()> flush;
  };
  LocalPass(Pass& pass, Host host);
  ~LocalPass();
  LocalPass(const LocalPass&) = delete;
  LocalPass& operator=(const LocalPass&) = delete;

  // Runs it, from these roots and from the sends that were planned; throws what fails. Leaves' gradients are in the
  // context then.
  void run(const torch::autograd::edge_list& roots, const Tensors& gradients, Walk walk);

  // The one whose node runs on this thread; null if none does.
  static LocalPass* running();
  void send_back(const ReceivedHop& hop, Tensors gradients);

 private:
  friend class PassEngine;
  class RootNode;
  class PumpNode;
  class ArrivalNode;
  void prepare(const std::shared_ptr<torch::autograd::GraphTask>& task);
  void forget_task();
  void pump();
  Tensors unpack(ArrivedGradient gradient);
  void hand_over(ArrivedGradient gradient);
  void evaluate(torch::autograd::Node& node);

  Pass& pass_;
  const Host host_;
  std::vector<RecvNode*> received_;
  std::shared_ptr<torch::autograd::GraphTask> task_;
  std::map<uint64_t, Tensors> there_;                        // of the sends whose gradients came before it ran
  std::map<uint64_t, NodePointerTo<ArrivalNode>> arrivals_;  // of the sends that are waited for
  NodePointerTo<PumpNode> pump_;
  NodePointerTo<ArrivalNode> pump_again_;
};

}  // namespace gradwire::autograd
