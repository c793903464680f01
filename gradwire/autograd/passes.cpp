// What root and participants share. For what each does see passes_root.cpp and passes_participant.cpp.
#include "gradwire/autograd/passes.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "gradwire/autograd/contexts.h"
#include "gradwire/autograd/local_pass.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/wire/id.h"

namespace gradwire::autograd {

void Passes::listen() {
  const std::shared_ptr<Exchange>& exchange = contexts_.place().exchange;
  const std::weak_ptr<Contexts> weak = contexts_.weak_from_this();
  const auto handle = [&](net::MessageType type, auto act) {
    exchange->on_message(type, [weak, act](const RecordPointer& from, const Received& received) {
      const std::shared_ptr<Contexts> contexts = weak.lock();
      wire::ByteReader head(received.message.head);
      if (contexts) (contexts->passes().*act)(from, head);
    });
  };
  handle(ask_type, &Passes::ask_arrived);
  handle(reached_type, &Passes::reached_arrived);
  handle(begin_type, &Passes::begin_arrived);
  handle(done_type, &Passes::done_arrived);
  handle(fail_type, &Passes::fail_arrived);
  exchange->on_message(gradient_type, [weak](const RecordPointer& from, Received&& received) {
    if (const std::shared_ptr<Contexts> contexts = weak.lock())
      contexts->passes().gradient_arrived(from, std::move(received));
  });
}

net::Message Passes::message(net::MessageType type, Id context, Id pass, wire::ByteWriter rest) const {
  wire::ByteWriter head;
  wire::put_id(head, context);
  wire::put_id(head, pass);
  head.put_bytes(rest.bytes());
  return {.type = type, .head = head.take(), .payload = {}};
}

std::shared_ptr<Frame> Passes::find(Id context) { return contexts_.find(context); }

void Passes::gradient_arrived(const RecordPointer& from, Received received) {
  wire::ByteReader head(received.message.head);
  const Id context = wire::take_id(head);
  const Id pass = wire::take_id(head);
  const auto hop = head.take<uint64_t>();
  PassOptions options;
  options.fast = head.take<bool>();
  RecordPointer root;
  if (options.fast) {
    options.retain_graph = head.take<bool>();
    options.create_graph = head.take<bool>();
    root = std::make_shared<net::Record>(net::decode_record(head));
    if (root->incarnation != pass.maker) head.fail("a pass with another's root");
  }
  head.expect_end("a gradient");
  auto whole = std::make_shared<Received>(std::move(received));
  const auto settled = [weak = contexts_.weak_from_this(), context, pass, hop, whole, from, options, root] {
    const std::shared_ptr<Contexts> contexts = weak.lock();
    const std::shared_ptr<Frame> frame = contexts ? contexts->find(context) : nullptr;
    if (!frame) return;  // AX
    if (options.fast && !contexts->passes().begin_fast(frame, pass, options, root)) return;
    contexts->passes().deliver(frame->context, pass, from->incarnation, {.hop = hop, .tensors = {}, .message = whole});
  };
  const std::shared_ptr<net::Arrival> arrival = whole->message.arrival;
  if (!arrival || arrival->settled()) return settled();
  arrival->when_settled(settled);
}

void Passes::deliver(const std::shared_ptr<ContextState>& context, Id id, Incarnation from, ArrivedGradient gradient) {
  const PassPointer pass = context->pass_for(id, from, gradient);
  if (!pass) return;
  pass->deliver(std::move(gradient));
  if (pass->is_root()) return;
  start(pass);
  finish_if_over(pass);
}

void Passes::start(const PassPointer& pass) {
  if (!pass->should_start()) return;
  contexts_.place().runtime->submit([weak = contexts_.weak_from_this(), pass] {
    if (const std::shared_ptr<Contexts> contexts = weak.lock()) contexts->passes().run_as_participant(pass);
  });
}

// B5. From the root: the pass has failed. From a participant: it fails.
void Passes::fail_arrived(const RecordPointer& from, wire::ByteReader& head) {
  const Id context = wire::take_id(head);
  const Id id = wire::take_id(head);
  const std::exception_ptr cause = decode_cause(head.take_string(), from->name);
  head.expect_end("the failure of a pass");
  const std::shared_ptr<Frame> frame = find(context);
  if (!frame) return;
  const PassPointer pass = frame->context->find_pass(id);
  if (pass && pass->is_root()) {
    pass->fail(cause);
    return;
  }
  // Only the root says so; of a fast pass, also whoever gave this worker a gradient and heard it from the root.
  const std::optional<ContextState::EndedPass> ended = frame->context->ended(id);
  const bool fast = pass ? pass->options().fast : !ended || ended->fast;
  if (id.maker != from->incarnation && !fast) return;
  frame->context->poison(cause);
  if (pass) {
    if (!pass->fail(cause)) return;
    frame->context->end_pass(id);
    if (fast) pass_failure_on(pass->given(), context, id, cause);
  } else if (ended) {
    frame->context->end_pass_heard(id);
    pass_failure_on(ended->given, context, id, cause);
  } else {
    frame->context->end_pass(id);  // a gradient that is still on its way must not begin it
  }
}

void Passes::context_ended(ContextState& context) {
  // The creator has ended it, or is dead: its passes are over, whatever this worker heard of them.
  for (const PassPointer& pass : context.passes())
    if (pass->root()->incarnation == context.creator()->incarnation)
      if (pass->fail(std::make_exception_ptr(CancelledError("the context has ended")))) context.end_pass(pass->id());
}

// The root of a fast pass does not know all that take part: failures go the way the gradients went.
void Passes::pass_failure_on(const std::vector<Ancestor>& given, Id context, Id pass, const std::exception_ptr& cause) {
  for (const Ancestor& hop : given) refuse(hop.sender, context, pass, cause);
}

// On the thread that runs the pass, with the context current: hooks may call, and look at gradients.
void Passes::run_engine(Pass& pass, const torch::autograd::edge_list& roots, const std::vector<at::Tensor>& gradients,
                        Walk walk, net::Time deadline) {
  Surroundings surroundings = Surroundings::here();
  const std::shared_ptr<WorkerCore> core = contexts_.place().core.lock();
  Trace* const trace = core ? core->calls().trace() : nullptr;
  const std::string name = trace != nullptr ? "of " + to_string(pass.id()) : "";
  const Trace::Span span(trace, "gradients", name);
  surroundings.worker = core;
  surroundings.context = pass.frame();
  surroundings.in_task = false;
  const SurroundingsGuard guard(std::move(surroundings));
  LocalPass::Host host;
  host.wait = [&](net::Duration limit) {
    net::Time until = deadline;
    if (limit != net::Duration::max()) until = std::min(until, std::chrono::steady_clock::now() + limit);
    wait(pass, [&] { return pass.has_arrived() || pass.failed(); }, until);
    if (until == deadline && !pass.has_arrived()) pass.check_in_time();
  };
  host.send_back = [&](const ReceivedHop& hop, std::vector<at::Tensor> tensors, bool at_once) {
    send_back(pass, hop, std::move(tensors), at_once);
  };
  host.flush = [&] { flush(pass); };
  LocalPass local(pass, std::move(host));
  try {
    local.run(roots, gradients, std::move(walk));
  } catch (c10::Error& error) {
    if (std::string_view(error.what_without_backtrace()).find("modified by an inplace operation") !=
        std::string_view::npos)
      error.add_context(
          "Values that the forward pass had used were changed before the backward pass of this context: if by the "
          "optimizer step of another trainer, let the trainers take turns, or give the optimizer {.hogwild = true} to "
          "go on with the changed values.");
    throw;
  }
}

void Passes::send_back(Pass& pass, const ReceivedHop& hop, std::vector<at::Tensor> gradients, bool at_once) {
  pass.check();
  if (std::ranges::none_of(gradients, [](const at::Tensor& gradient) { return gradient.defined(); })) gradients.clear();
  // Within this worker nothing is sent, and a graph of the gradients goes on as it is.
  if (hop.sender->incarnation == contexts_.self()->incarnation)
    return pass.deliver({.hop = hop.hop.counter, .tensors = std::move(gradients), .message = nullptr});
  wire::ByteWriter rest;
  rest.put(hop.hop.counter);
  rest.put(pass.options().fast);
  if (pass.options().fast) {
    rest.put(pass.options().retain_graph);
    rest.put(pass.options().create_graph);
    net::encode(rest, *pass.root());
    pass.gave({.hop = hop.hop, .sender = hop.sender});
  }
  net::Message gradient = message(gradient_type, pass.context().id(), pass.id(), std::move(rest));
  gradient.payload.tensors = std::move(gradients);
  send_later(pass, *hop.sender, std::move(gradient));
  if (at_once) flush(pass);
}

void Passes::send_later(Pass& pass, const net::Record& to, net::Message message) {
  pass.write_later(
      contexts_.place().exchange->send(to, std::move(message), net::Admission::always, net::Writing::later).session);
}

void Passes::flush(Pass& pass) {
  for (const std::shared_ptr<net::Session>& session : pass.take_unwritten()) session->flush();
}

void Passes::wait(Pass& pass, const std::function<bool()>& done, net::Time deadline) {
  flush(pass);
  std::shared_ptr<net::Session> session;
  if (const RecordPointer awaited = pass.awaited(); awaited && awaited->incarnation != contexts_.self()->incarnation) {
    if (const std::shared_ptr<WorkerCore> core = contexts_.place().core.lock()) {
      try {
        session = core->endpoint()->session(*awaited);
      } catch (const PeerGoneError&) {
        // The pass is failed by whoever hears of it.
      }
    }
  }
  pass.signal().wait(*contexts_.place().runtime, session.get(), done, deadline);
}

void Passes::peer_gone(const net::Record& peer) {
  const std::exception_ptr cause = contexts_.why_gone(peer);
  for (const std::shared_ptr<ContextState>& context : contexts_.all()) {
    context->root_gone(peer.incarnation);
    for (const PassPointer& pass : context->passes()) {
      if (pass->is_root()) {
        if (pass->takes_part(peer.incarnation)) pass->fail(cause);
      } else if (pass->root()->incarnation == peer.incarnation || pass->waits_for(peer.incarnation)) {
        participant_failed(pass, cause);
      }
    }
  }
}

void Passes::closed(const std::unordered_map<Id, std::shared_ptr<ContextState>>& contexts) {
  const auto cause = std::make_exception_ptr(CancelledError("the worker leaves the group"));
  for (const auto& [id, context] : contexts)
    for (const PassPointer& pass : context->passes()) {
      pass->fail(cause);
      context->end_pass(pass->id());
    }
}

}  // namespace gradwire::autograd
