// The backward passes of one worker: as the root, which plans them and decides how they end, and as a participant.
// docs/gradients.md tells the protocol.
//
//   B1  a hop is planned exactly if a path leads from a root to it
//   B2  no task begins anywhere before the plan is complete
//   B4  each node of the planned part runs exactly once
#pragma once

#include <chrono>
#include <memory>
#include <unordered_map>
#include <vector>

#include "gradwire/autograd/context_messages.h"
#include "gradwire/autograd/pass.h"
#include "gradwire/autograd/walk.h"
#include "gradwire/rpc/exchange.h"

namespace gradwire::autograd {

class Contexts;

// Any thread. Part of Contexts, which outlives it.
class Passes {
 public:
  explicit Passes(Contexts& contexts) : contexts_(contexts) {}
  // Before the exchange is open.
  void listen();

  struct Request {
    std::vector<at::Tensor> roots;
    std::vector<at::Tensor> gradients;  // one for each root
    PassOptions options;
    std::chrono::milliseconds timeout{};
  };
  // Returns when all gradients, on all workers, are in their contexts. Throws what fails.
  void backward(const std::shared_ptr<Frame>& frame, const Request& request);

  void peer_gone(const net::Record& peer);
  void context_ended(ContextState& context);
  void closed(const std::unordered_map<Id, std::shared_ptr<ContextState>>& contexts);

 private:
  using PassPointer = std::shared_ptr<Pass>;
  using Plan = std::map<Incarnation, std::pair<RecordPointer, std::vector<uint64_t>>>;

  // At the root.
  void run_as_root(const PassPointer& pass, const Request& request, net::Time deadline);
  Plan plan(Pass& pass, const std::vector<RecvNode*>& reached, net::Time deadline);
  void begin_participants(Pass& pass, const Plan& plan);
  void wait(Pass& pass, const std::function<bool()>& done, net::Time deadline);
  void fail_everywhere(Pass& pass, const std::exception_ptr& cause);
  void reached_arrived(const RecordPointer& from, wire::ByteReader& head);
  void done_arrived(const RecordPointer& from, wire::ByteReader& head);

  // At a participant.
  void ask_arrived(const RecordPointer& from, wire::ByteReader& head);
  // Walks, if there was too much to walk when it was sent.
  static std::vector<ReceivedHopPointer> reached_from(ContextState& context, const ContextState::Sent& sent);
  void answer(const RecordPointer& from, ContextState& context, Id pass, const std::vector<uint64_t>& hops);
  void begin_arrived(const RecordPointer& from, wire::ByteReader& head);
  PassPointer begin_fast(const std::shared_ptr<Frame>& frame, Id pass, PassOptions options, const RecordPointer& root);
  void start(const PassPointer& pass);
  void run_as_participant(const PassPointer& pass);
  void finish_if_over(const PassPointer& pass);
  void participant_failed(const PassPointer& pass, const std::exception_ptr& cause);

  // Both.
  void gradient_arrived(const RecordPointer& from, Received received);
  void deliver(const std::shared_ptr<ContextState>& context, Id pass, Incarnation from, ArrivedGradient gradient);
  void fail_arrived(const RecordPointer& from, wire::ByteReader& head);
  void pass_failure_on(const std::vector<Ancestor>& given, Id context, Id pass, const std::exception_ptr& cause);
  void run_engine(Pass& pass, const torch::autograd::edge_list& roots, const std::vector<at::Tensor>& gradients,
                  Walk walk, net::Time deadline);
  void send_back(Pass& pass, const ReceivedHop& hop, std::vector<at::Tensor> gradients, bool at_once);
  void refuse(const RecordPointer& root, Id context, Id pass, const std::exception_ptr& why);
  std::shared_ptr<Frame> find(Id context);
  // Written by `flush`, together with others. Throws PeerGoneError.
  void send_later(Pass& pass, const net::Record& to, net::Message message);
  static void flush(Pass& pass);
  net::Message message(net::MessageType type, Id context, Id pass, wire::ByteWriter rest) const;

  Contexts& contexts_;
};

}  // namespace gradwire::autograd
