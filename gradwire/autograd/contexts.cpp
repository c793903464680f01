#include "gradwire/autograd/contexts.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include "gradwire/autograd/nodes.h"
#include "gradwire/autograd/passes.h"
#include "gradwire/rpc/call_messages.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/wire/id.h"

namespace gradwire::autograd {
Frame::Frame(std::shared_ptr<ContextState> held, bool without_grad) : context(std::move(held)), no_grad(without_grad) {}

Frame::~Frame() {
  if (const std::shared_ptr<Contexts> contexts = context->contexts()) contexts->let_go(context, caller_, call_);
}

void Frame::tell_when_over(RecordPointer caller, uint64_t call) {
  caller_ = std::move(caller);
  call_ = call;
}

std::shared_ptr<Contexts> Contexts::make(Place place) {
  std::shared_ptr<Contexts> contexts(new Contexts(std::move(place)));
  const auto handle = [&](net::MessageType type, auto act) {
    contexts->place_.exchange->on_message(
        type, [weak = std::weak_ptr(contexts), act](const RecordPointer& from, const Received& received) {
          if (const std::shared_ptr<Contexts> self = weak.lock()) act(*self, from, received.message.head);
        });
  };
  handle(member_type,
         [](Contexts& self, const RecordPointer& from, std::string_view head) { self.member_arrived(from, head); });
  handle(end_type,
         [](Contexts& self, const RecordPointer& from, std::string_view head) { self.end_arrived(from, head); });
  handle(over_type,
         [](Contexts& self, const RecordPointer& from, std::string_view head) { self.over_arrived(from, head); });
  contexts->passes_->listen();
  return contexts;
}

Contexts::Contexts(Place place) : place_(std::move(place)), passes_(std::make_unique<Passes>(*this)) {}

Contexts::~Contexts() = default;

std::shared_ptr<Contexts> Contexts::of(const WorkerCore& core) {
  return std::static_pointer_cast<Contexts>(core.exchange().passenger(2));
}

std::shared_ptr<Frame> Contexts::create() {
  const Id id = next_id();
  auto context = std::make_shared<ContextState>(weak_from_this(), id, self(), id.maker);
  context->hold();
  MutexLock lock(mutex_);
  contexts_.emplace(id, context);
  return std::make_shared<Frame>(std::move(context));
}

std::shared_ptr<Frame> Contexts::find(Id id) {
  MutexLock lock(mutex_);
  auto found = contexts_.find(id);
  if (found == contexts_.end()) return nullptr;
  found->second->hold();
  return std::make_shared<Frame>(found->second);
}

std::vector<std::shared_ptr<ContextState>> Contexts::all() {
  std::vector<std::shared_ptr<ContextState>> all;
  MutexLock lock(mutex_);
  for (const auto& [id, context] : contexts_) all.push_back(context);
  return all;
}

std::vector<ContextReport> Contexts::report() {
  std::vector<ContextReport> report;
  for (const std::shared_ptr<ContextState>& context : all())
    report.push_back({context->id(), context->creator()->name, context->counts()});
  return report;
}

std::exception_ptr Contexts::why_gone(const net::Record& peer) {
  MutexLock lock(mutex_);
  auto found = dead_.find(peer.incarnation);
  if (found == dead_.end()) return nullptr;
  return std::make_exception_ptr(PeerGoneError(
      fmt::format("{} takes part in the backward pass and is gone ({})", peer.name, name_of(found->second)), peer.name,
      found->second));
}

// Under whatever lock the frame's last user was.
void Contexts::let_go(const std::shared_ptr<ContextState>& context, const RecordPointer& caller, uint64_t call) {
  if (caller)
    place_.runtime->post([weak = weak_from_this(), caller, call] {
      const std::shared_ptr<Contexts> self = weak.lock();
      if (!self) return;
      wire::ByteWriter head;
      head.put(call);
      self->place_.exchange->tell(*caller, {.type = over_type, .head = head.take(), .payload = {}});
    });
  if (context->let_go()) release_soon(context);
}

void Contexts::release_soon(const std::shared_ptr<ContextState>& context) {
  place_.runtime->submit([weak = weak_from_this(), context] {
    if (const std::shared_ptr<Contexts> self = weak.lock()) self->release(context);
  });
}

void Contexts::release(const std::shared_ptr<ContextState>& context) {
  std::unique_ptr<ContextState::Remains> remains;
  {
    // AH: in one step. From here on no request finds it.
    MutexLock lock(mutex_);
    remains = context->release_if_over();
    if (!remains) return;
    contexts_.erase(context->id());
  }
  for (const RecordPointer& member : remains->members) tell_end(*member, context->id());
}

// No one waits for it: it goes with the next step's first call, if that comes soon.
void Contexts::tell_end(const net::Record& member, Id context) {
  wire::ByteWriter head;
  wire::put_id(head, context);
  try {
    place_.exchange->send(member, {.type = end_type, .head = head.take(), .payload = {}}, net::Admission::always,
                          net::Writing::later);
  } catch (const PeerGoneError&) {
    // It has nothing to release.
  }
}

// AQ: a send node is made when the message is prepared, and counts from when it is queued irrevocably.
class Contexts::Boarding : public Ticket {
 public:
  Boarding(std::shared_ptr<Contexts> contexts, std::shared_ptr<Frame> frame, RecordPointer to, net::MessageType type)
      : contexts_(std::move(contexts)), frame_(std::move(frame)), to_(std::move(to)), type_(type) {
    section.context = frame_->context->id();
  }
  ~Boarding() override {
    if (send_) frame_->context->forget_walk(*send_);
  }
  Boarding(const Boarding&) = delete;
  Boarding& operator=(const Boarding&) = delete;

  void add_hop(std::vector<uint32_t> which, const std::vector<at::Tensor>& tensors) {
    ContextState& context = *frame_->context;
    send_ = make_node<SendNode>(tensors);
    ContextState::Dependencies dependencies = context.walk(*send_);
    HopSection& hop = section.hop.emplace();
    hop.tensors = std::move(which);
    hop.open = dependencies.open;
    if (!dependencies.reached.empty()) hop.ancestors = context.lineage(dependencies.reached, to_->incarnation);
    reached_ = std::move(dependencies.reached);
  }

  void board(wire::ByteWriter& bytes) override {
    ContextState& context = *frame_->context;
    if (section.hop) {
      section.hop->counter = contexts_->next_id().counter;
      if (!context.add_send(
              section.hop->counter,
              {.node = NodePointer(send_), .receiver = to_, .reached = std::move(reached_), .open = section.hop->open}))
        return;
      send_.reset();
    }
    if (type_ == request_type && context.created_here()) context.add_member(to_);
    encode(bytes, section, contexts_->self(), to_);
  }

  ContextSection section;

 private:
  const std::shared_ptr<Contexts> contexts_;
  const std::shared_ptr<Frame> frame_;
  const RecordPointer to_;
  const net::MessageType type_;
  NodePointerTo<SendNode> send_;
  std::vector<ReceivedHopPointer> reached_;
};

std::unique_ptr<Passenger::Ticket> Contexts::prepare(const net::Message& message, const RecordPointer& to) {
  if (message.type != request_type && message.type != reply_type && message.type != gradient_type) return nullptr;
  std::shared_ptr<Frame> frame = std::static_pointer_cast<Frame>(Surroundings::here().context);
  if (!frame) return nullptr;
  ContextState& context = *frame->context;
  if (context.contexts().get() != this)
    throw InvalidArgumentError(
        fmt::format("the current context is of another worker of this process than {}, which sends: each worker has "
                    "contexts of its own",
                    self()->name));
  std::vector<uint32_t> which;
  std::vector<at::Tensor> tensors;
  // C14.
  const bool grad_mode = torch::autograd::GradMode::is_enabled() && !frame->no_grad;
  if (grad_mode) {
    for (size_t i = 0; i < message.payload.tensors.size(); ++i) {
      const at::Tensor& tensor = message.payload.tensors[i];
      if (!tensor.defined() || !tensor.requires_grad()) continue;
      which.push_back(static_cast<uint32_t>(i));
      tensors.push_back(tensor);
    }
  }
  std::optional<uint64_t> more;
  if (message.type == reply_type) {
    // AO: kept by this, by whoever answers (twice), and here: whoever else has it goes on under it.
    constexpr long answering = 4;
    if (frame.use_count() > answering) {
      more = wire::ByteReader(message.head).take<uint64_t>();
      frame->tell_when_over(to, *more);
    }
  }
  if (message.type != request_type && which.empty() && !more) return nullptr;
  auto boarding = std::make_unique<Boarding>(shared_from_this(), frame, to, message.type);
  boarding->section.more = more;
  if (message.type == request_type) {
    boarding->section.no_grad = !grad_mode;
    if (!context.created_here() && context.creator()->incarnation != to->incarnation)
      boarding->section.creator = context.creator();
  }
  if (!which.empty()) boarding->add_hop(std::move(which), tensors);
  return boarding;
}

// What came with a message: the frame that a request runs in, the hop whose recv node its tensors get.
class Contexts::ContextBag : public Bag {
 public:
  void enter(Surroundings& surroundings) override {
    if (refusal) throw NotFoundError(*refusal);
    surroundings.context = frame;
    surroundings.no_grad = frame->no_grad;
  }
  void unload(wire::Payload& payload) override {
    if (!hop || !context) return;
    auto node = make_node<RecvNode>(context, hop);
    for (const uint32_t i : which) {
      if (i >= payload.tensors.size()) throw wire::MalformedError("a gradient for a tensor that is not there");
      at::Tensor& tensor = payload.tensors[i];
      if (!tensor.defined() || !(tensor.is_floating_point() || tensor.is_complex()))
        throw wire::MalformedError("a gradient for a tensor that cannot have one");
      torch::autograd::create_gradient_edge(tensor, NodePointer(node));
    }
    context->note_received();
  }

  std::optional<std::string> refusal;
  std::shared_ptr<Frame> frame;  // of a request
  std::shared_ptr<ContextState> context;
  ReceivedHopPointer hop;
  std::vector<uint32_t> which;
};

std::unique_ptr<Passenger::Bag> Contexts::arrived(const RecordPointer& from, net::MessageType type,
                                                  std::string_view bytes, const std::vector<wire::TensorDescription>&) {
  ContextSection section = decode_context_section(bytes, from, self());
  auto bag = std::make_unique<ContextBag>();
  if (type == request_type) {
    bag->frame = called_under(section, from);
    if (bag->frame)
      bag->context = bag->frame->context;
    else
      bag->refusal = fmt::format("the context {} that the call was made under has ended", to_string(section.context));
  } else if (type == reply_type) {
    // AN: never makes a context. Its receiver holds it, or the call is over and the section is dropped.
    const std::shared_ptr<WorkerCore> core = place_.core.lock();
    const uint64_t call = section.more.value_or(0);
    std::shared_ptr<void> held;
    if (core && section.more) held = core->calls().context_of(call, from->incarnation);
    MutexLock lock(mutex_);
    if (auto found = contexts_.find(section.context); found != contexts_.end()) bag->context = found->second;
    if (held) not_over_.emplace(Id{from->incarnation, call}, std::move(held));
  } else {
    MutexLock lock(mutex_);
    if (auto found = contexts_.find(section.context); found != contexts_.end()) bag->context = found->second;
  }
  if (section.hop && bag->context) {
    bag->hop = std::make_shared<ReceivedHop>(ReceivedHop{.hop = {from->incarnation, section.hop->counter},
                                                         .sender = from,
                                                         .open = section.hop->open,
                                                         .ancestors = std::move(section.hop->ancestors)});
    bag->which = std::move(section.hop->tensors);
  }
  return bag;
}

// AN: only a request makes a context, and never at its creator.
std::shared_ptr<Frame> Contexts::called_under(const ContextSection& section, const RecordPointer& caller) {
  std::shared_ptr<ContextState> context;
  bool made = false;
  {
    MutexLock lock(mutex_);
    auto found = contexts_.find(section.context);
    if (found != contexts_.end()) {
      context = found->second;
    } else {
      const Incarnation me = place_.exchange->record().incarnation;
      if (section.context.maker == me || !section.creator) return nullptr;
      context = std::make_shared<ContextState>(weak_from_this(), section.context, section.creator, me);
      contexts_.emplace(section.context, context);
      made = true;
      if (dead_.contains(section.context.maker)) context->end();
    }
    context->hold();
  }
  auto frame = std::make_shared<Frame>(context, section.no_grad);
  if (made && caller->incarnation != section.context.maker && !context->ending()) tell_member(context);
  return frame;
}

// AS: opens a session if there is none; a creator that cannot be met is a dead one.
void Contexts::tell_member(const std::shared_ptr<ContextState>& context) {
  wire::ByteWriter head;
  wire::put_id(head, context->id());
  try {
    place_.exchange->send(*context->creator(), {.type = member_type, .head = head.take(), .payload = {}},
                          net::Admission::always);
  } catch (const PeerGoneError&) {
    end(context);
  }
}

void Contexts::end(const std::shared_ptr<ContextState>& context) {
  const bool over = context->end();
  passes_->context_ended(*context);
  if (over) release_soon(context);
}

void Contexts::member_arrived(const RecordPointer& from, std::string_view head) {
  wire::ByteReader reader(head);
  const Id id = wire::take_id(reader);
  reader.expect_end("a member of a context");
  {
    MutexLock lock(mutex_);
    if (auto found = contexts_.find(id); found != contexts_.end()) return found->second->add_member(from);
  }
  wire::ByteWriter answer;
  wire::put_id(answer, id);
  place_.exchange->tell(*from, {.type = end_type, .head = answer.take(), .payload = {}});
}

void Contexts::end_arrived(const RecordPointer& from, std::string_view head) {
  wire::ByteReader reader(head);
  const Id id = wire::take_id(reader);
  reader.expect_end("the end of a context");
  if (id.maker != from->incarnation) return;  // only its creator ends it
  std::shared_ptr<ContextState> context;
  {
    MutexLock lock(mutex_);
    auto found = contexts_.find(id);
    if (found == contexts_.end() || found->second->created_here()) return;
    context = found->second;
  }
  end(context);
}

void Contexts::over_arrived(const RecordPointer& from, std::string_view head) {
  std::shared_ptr<void> held;  // let go without the lock
  MutexLock lock(mutex_);
  auto found = not_over_.find({from->incarnation, wire::ByteReader(head).take<uint64_t>()});
  if (found == not_over_.end()) return;
  held = std::move(found->second);
  not_over_.erase(found);
}

void Contexts::peer_gone(const net::Record& peer, GoneReason reason) {
  std::vector<std::shared_ptr<void>> held;
  {
    MutexLock lock(mutex_);
    dead_.emplace(peer.incarnation, reason);
    for (auto call = not_over_.begin(); call != not_over_.end();) {
      if (call->first.maker == peer.incarnation) {
        held.push_back(std::move(call->second));
        call = not_over_.erase(call);
      } else {
        ++call;
      }
    }
  }
  passes_->peer_gone(peer);
  for (const std::shared_ptr<ContextState>& context : all()) {
    context->remove_member(peer.incarnation);
    if (context->creator()->incarnation == peer.incarnation) end(context);
  }
}

void Contexts::closed() {
  std::unordered_map<Id, std::shared_ptr<ContextState>> contexts;
  std::unordered_map<Id, std::shared_ptr<void>> held;
  {
    MutexLock lock(mutex_);
    contexts.swap(contexts_);
    held.swap(not_over_);
  }
  passes_->closed(contexts);
  for (const auto& [id, context] : contexts) context->release();
}

}  // namespace gradwire::autograd
