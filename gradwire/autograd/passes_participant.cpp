// As a participant: answers questions, runs its part when the first gradient is there, says when it is done.
#include <c10/util/Logging.h>
#include <fmt/format.h>

#include "gradwire/autograd/contexts.h"
#include "gradwire/autograd/local_pass.h"
#include "gradwire/autograd/passes.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/wire/id.h"

namespace gradwire::autograd {

// AX: whoever asks about what is not there is told.
void Passes::refuse(const RecordPointer& root, Id context, Id pass, const std::exception_ptr& why) {
  wire::ByteWriter rest;
  rest.put_string(encode_cause(why, contexts_.self()->name));
  contexts_.place().exchange->tell(*root, message(fail_type, context, pass, std::move(rest)));
}

void Passes::ask_arrived(const RecordPointer& from, wire::ByteReader& head) {
  const Id context = wire::take_id(head);
  const Id pass = wire::take_id(head);
  const std::vector<uint64_t> hops = decode_hops(head);
  head.expect_end("a question about hops");
  const std::shared_ptr<Frame> frame = find(context);
  if (!frame)
    return refuse(from, context, pass,
                  std::make_exception_ptr(
                      NotFoundError(fmt::format("{} does not have the context any more", contexts_.self()->name))));
  // A walk may take long.
  contexts_.place().runtime->submit([weak = contexts_.weak_from_this(), from, frame, pass, hops] {
    if (const std::shared_ptr<Contexts> contexts = weak.lock())
      contexts->passes().answer(from, *frame->context, pass, hops);
  });
}

std::vector<ReceivedHopPointer> Passes::reached_from(ContextState& context, const ContextState::Sent& sent) {
  if (!sent.open) return sent.reached;
  Walk walk(context);
  walk.from(sent.node.get());
  std::vector<ReceivedHopPointer> reached;
  for (const RecvNode* received : walk.received()) reached.push_back(received->hop());
  return reached;
}

void Passes::answer(const RecordPointer& from, ContextState& context, Id pass, const std::vector<uint64_t>& hops) {
  std::vector<ReceivedHopPointer> reached;
  try {
    for (const uint64_t hop : hops) {
      const std::optional<ContextState::Sent> sent = context.find_send(hop);
      if (!sent) throw NotFoundError(fmt::format("{} does not have hop {}", contexts_.self()->name, hop));
      for (ReceivedHopPointer& each : reached_from(context, *sent)) reached.push_back(std::move(each));
    }
  } catch (...) {
    return refuse(from, context.id(), pass, std::current_exception());
  }
  wire::ByteWriter rest;
  encode(rest, context.lineage(reached, from->incarnation), contexts_.self(), from);
  contexts_.place().exchange->tell(*from, message(reached_type, context.id(), pass, std::move(rest)));
}

void Passes::begin_arrived(const RecordPointer& from, wire::ByteReader& head) {
  const Id context = wire::take_id(head);
  const Id id = wire::take_id(head);
  PassOptions options;
  options.retain_graph = head.take<bool>();
  options.create_graph = head.take<bool>();
  const std::vector<uint64_t> hops = decode_hops(head);
  head.expect_end("the beginning of a pass");
  if (id.maker != from->incarnation) return;  // only its root begins it
  const std::shared_ptr<Frame> frame = find(context);
  std::map<uint64_t, ContextState::Sent> planned;
  if (frame) {
    for (const uint64_t hop : hops)
      if (std::optional<ContextState::Sent> sent = frame->context->find_send(hop))
        planned.emplace(hop, *std::move(sent));
  }
  const auto pass = frame ? std::make_shared<Pass>(id, frame, options, from) : nullptr;
  if (pass && planned.size() == hops.size()) {
    pass->plan(std::move(planned));
    if (frame->context->add_pass(pass)) {
      for (const auto& [hop, sent] : pass->planned())
        if (const std::exception_ptr gone = contexts_.why_gone(*sent.receiver);
            gone && pass->waits_for(sent.receiver->incarnation))
          return participant_failed(pass, gone);
      return start(pass);
    }
  }
  refuse(from, context, id,
         std::make_exception_ptr(NotFoundError(
             fmt::format("{} does not have the context, or part of its graph, any more", contexts_.self()->name))));
}

// A gradient of a fast pass begins it. Null if it has ended here, or cannot begin any more.
Passes::PassPointer Passes::begin_fast(const std::shared_ptr<Frame>& frame, Id id, PassOptions options,
                                       const RecordPointer& root) {
  if (PassPointer pass = frame->context->find_pass(id)) return pass;
  if (frame->context->ended(id) || id.maker == contexts_.self()->incarnation) return nullptr;
  auto pass = std::make_shared<Pass>(id, frame, options, root);
  pass->plan(frame->context->all_sends());
  if (!frame->context->add_pass(pass)) {
    refuse(root, frame->context->id(), id,
           std::make_exception_ptr(
               NotFoundError(fmt::format("{} does not have the context any more", contexts_.self()->name))));
    return nullptr;
  }
  try {
    contexts_.place().exchange->meet(*root);  // M1
  } catch (const PeerGoneError&) {
    participant_failed(pass, std::current_exception());
    return nullptr;
  }
  return frame->context->find_pass(id);
}

void Passes::run_as_participant(const PassPointer& pass) {
  try {
    const std::shared_ptr<WorkerCore> core = contexts_.place().core.lock();
    if (!core) return;
    const Calls::Occupied occupied(core->calls());
    // It will wait, again and again: the thread is replaced once, and not each time.
    std::optional<net::Threads::Blocked> blocked;
    if (pass->is_missing_any()) blocked.emplace();
    run_engine(*pass, {}, {}, Walk(pass->context()), net::Time::max());
    pass->ran();
  } catch (...) {
    return participant_failed(pass, std::current_exception());
  }
  finish_if_over(pass);
  flush(*pass);
}

void Passes::finish_if_over(const PassPointer& pass) {
  if (!pass->finishes()) return;
  pass->context().end_pass(pass->id());
  wire::ByteWriter rest;
  rest.put(pass->options().fast);
  if (pass->options().fast) {
    std::vector<uint64_t> taken;
    // Those from this worker itself were counted by no one.
    for (const auto& [hop, sent] : pass->planned())
      if (sent.receiver->incarnation != contexts_.self()->incarnation) taken.push_back(hop);
    encode(rest, taken);
    encode(rest, pass->given(), contexts_.self(), pass->root());
  }
  try {
    send_later(*pass, *pass->root(), message(done_type, pass->context().id(), pass->id(), std::move(rest)));
  } catch (const PeerGoneError& gone) {
    VLOG(1) << "gradwire: no one is left to hear that a pass is done: " << gone.what();
  }
  flush(*pass);
}

// B5: the root hears of it, and tells all.
void Passes::participant_failed(const PassPointer& pass, const std::exception_ptr& cause) {
  if (!pass->fail(cause)) return;
  flush(*pass);
  pass->context().poison(cause);
  pass->context().end_pass(pass->id());
  refuse(pass->root(), pass->context().id(), pass->id(), cause);
  if (pass->options().fast) pass_failure_on(pass->given(), pass->context().id(), pass->id(), cause);
}

}  // namespace gradwire::autograd
