// As the root of a pass: plan, begin, wait for all, decide.
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/variable.h>

#include "gradwire/autograd/contexts.h"
#include "gradwire/autograd/local_pass.h"
#include "gradwire/autograd/passes.h"
#include "gradwire/wire/id.h"

namespace gradwire::autograd {

void Passes::backward(const std::shared_ptr<Frame>& frame, const Request& request) {
  // What is longer than a century is no limit, and would not fit.
  const net::Time deadline = request.timeout > std::chrono::hours(24 * 365 * 100)
                                 ? net::Time::max()
                                 : std::chrono::steady_clock::now() + request.timeout;
  ContextState& context = *frame->context;
  context.throw_if_poisoned();
  context.hold();
  const auto pass = std::make_shared<Pass>(contexts_.next_id(), std::make_shared<Frame>(frame->context),
                                           request.options, contexts_.self());
  if (!context.add_pass(pass))
    throw NotFoundError(fmt::format("the context {} has ended: no pass starts under it", to_string(context.id())));
  try {
    run_as_root(pass, request, deadline);
  } catch (...) {
    const std::exception_ptr cause = std::current_exception();
    fail_everywhere(*pass, cause);
    context.end_pass(pass->id());
    throw;
  }
  context.end_pass(pass->id());
}

void Passes::run_as_root(const PassPointer& pass, const Request& request, net::Time deadline) {
  pass->limit(request.timeout);
  torch::autograd::edge_list roots;
  Walk walk(pass->context());
  for (const at::Tensor& root : request.roots) {
    roots.push_back(torch::autograd::impl::gradient_edge(root));
    walk.from(roots.back().function.get());
  }
  std::map<uint64_t, ContextState::Sent> own;
  Plan all;
  if (request.options.fast)
    own = pass->context().all_sends();
  else
    all = plan(*pass, walk.received(), deadline);
  if (auto mine = all.find(contexts_.self()->incarnation); mine != all.end()) {
    for (const uint64_t hop : mine->second.second) {
      std::optional<ContextState::Sent> sent = pass->context().find_send(hop);
      if (!sent) throw NotFoundError("a hop of this worker's that takes part in the pass is not there any more");
      own.emplace(hop, *std::move(sent));
    }
    all.erase(mine);
  }
  pass->plan(std::move(own));
  pass->begin();
  begin_participants(*pass, all);
  run_engine(*pass, roots, request.gradients, std::move(walk), deadline);
  pass->ran();
  // B5: then all gradients, on all workers, are in their contexts.
  wait(*pass, [&] { return pass->all_done() || pass->failed(); }, deadline);
  pass->check();
  if (!pass->finishes() || !pass->all_done()) pass->check_in_time();
}

// B1, B2. What this worker does not know is asked for; what it sent itself it knows, or walks.
Passes::Plan Passes::plan(Pass& pass, const std::vector<RecvNode*>& reached, net::Time deadline) {
  const Incarnation me = contexts_.self()->incarnation;
  std::vector<ReceivedHopPointer> to_close;
  for (const RecvNode* node : reached) to_close.push_back(node->hop());
  std::unordered_map<Id, Ancestor> known;
  std::vector<Ancestor> found;
  while (!to_close.empty() || !found.empty()) {
    for (Ancestor& ancestor : pass.context().lineage(std::exchange(to_close, {}), Incarnation::none))
      found.push_back(std::move(ancestor));
    Plan questions;
    for (Ancestor& ancestor : std::exchange(found, {})) {
      if (!known.emplace(ancestor.hop, ancestor).second || !ancestor.open) continue;
      if (ancestor.hop.maker == me) {
        if (const std::optional<ContextState::Sent> sent = pass.context().find_send(ancestor.hop.counter))
          for (ReceivedHopPointer& each : reached_from(pass.context(), *sent)) to_close.push_back(std::move(each));
      } else {
        auto& [sender, wanted] = questions[ancestor.hop.maker];
        sender = ancestor.sender;
        wanted.push_back(ancestor.hop.counter);
      }
    }
    for (const auto& [incarnation, question] : questions) {
      pass.ask(incarnation);
      wire::ByteWriter rest;
      encode(rest, question.second);
      contexts_.place().exchange->send(
          *question.first, message(ask_type, pass.context().id(), pass.id(), std::move(rest)), net::Admission::always);
    }
    if (questions.empty()) continue;
    wait(pass, [&] { return pass.answered() || pass.failed(); }, deadline);
    pass.check();
    if (!pass.answered()) pass.check_in_time();
    found = pass.take_answers();
  }
  Plan plan;
  for (const auto& [hop, ancestor] : known) {
    auto& [sender, planned] = plan[hop.maker];
    sender = ancestor.sender;
    planned.push_back(hop.counter);
  }
  return plan;
}

void Passes::begin_participants(Pass& pass, const Plan& plan) {
  // All are known before the first hears of it: whoever dies from here on takes part.
  for (const auto& [incarnation, part] : plan) {
    pass.expect_done(part.first);
    if (const std::exception_ptr gone = contexts_.why_gone(*part.first)) std::rethrow_exception(gone);
  }
  for (const auto& [incarnation, part] : plan) {
    wire::ByteWriter rest;
    rest.put(pass.options().retain_graph);
    rest.put(pass.options().create_graph);
    encode(rest, part.second);
    send_later(pass, *part.first, message(begin_type, pass.context().id(), pass.id(), std::move(rest)));
  }
}

void Passes::fail_everywhere(Pass& pass, const std::exception_ptr& cause) {
  pass.fail(cause);
  flush(pass);
  if (!pass.has_begun()) return;  // nothing has been touched
  pass.context().poison(cause);
  const std::string bytes = encode_cause(cause, contexts_.self()->name);
  for (const RecordPointer& participant : pass.participants()) {
    wire::ByteWriter rest;
    rest.put_string(bytes);
    contexts_.place().exchange->tell(*participant, message(fail_type, pass.context().id(), pass.id(), std::move(rest)));
  }
}

void Passes::reached_arrived(const RecordPointer& from, wire::ByteReader& head) {
  const Id context = wire::take_id(head);
  const Id id = wire::take_id(head);
  std::vector<Ancestor> ancestors = decode_ancestors(head, from, contexts_.self());
  if (const std::shared_ptr<Frame> frame = find(context))
    if (const PassPointer pass = frame->context->find_pass(id)) pass->reached(from->incarnation, std::move(ancestors));
}

void Passes::done_arrived(const RecordPointer& from, wire::ByteReader& head) {
  const Id context = wire::take_id(head);
  const Id id = wire::take_id(head);
  if (const std::shared_ptr<Frame> frame = find(context))
    if (const PassPointer pass = frame->context->find_pass(id)) {
      if (!head.take<bool>()) return pass->done(from->incarnation);
      std::vector<Id> taken;
      for (const uint64_t hop : decode_hops(head)) taken.push_back({from->incarnation, hop});
      const std::vector<Ancestor> gave = decode_ancestors(head, from, contexts_.self());
      std::vector<Ancestor> elsewhere;
      for (const Ancestor& hop : gave) {
        if (hop.hop.maker == contexts_.self()->incarnation) continue;  // this worker knows what it got
        elsewhere.push_back(hop);
        if (const std::exception_ptr gone = contexts_.why_gone(*hop.sender)) pass->fail(gone);
        try {
          contexts_.place().exchange->meet(*hop.sender);  // M1
        } catch (const PeerGoneError&) {
          pass->fail(std::current_exception());
        }
      }
      pass->done_by_hop(taken, elsewhere);
    }
}

}  // namespace gradwire::autograd
