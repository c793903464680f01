#include "gradwire/rpc/worker.h"

#include <new>

#include "gradwire/net/fork.h"
#include "gradwire/rpc/worker_core.h"

namespace gradwire {

Worker::~Worker() {
  if (!owns_) return;
  // In a forked child nothing of it works, not even its end: it is left as it is.
  if (net::forked_child())
    new (std::nothrow) std::shared_ptr<WorkerCore>(core_);
  else
    core_->close();
}

Worker& Worker::current() {
  const std::shared_ptr<WorkerCore>& core = Surroundings::here().worker;
  if (!core)
    throw InvalidArgumentError(
        "no worker is current here: Worker::current() is for functions that a worker runs, and for "
        "Tasks and continuations that they started");
  return core->view();
}

int Worker::rank() const { return core_->record().rank; }

const std::string& Worker::name() const { return core_->record().name; }

Peer Worker::peer(const std::string& name) {
  net::Runtime::require_threads();
  return peer_of(core_->membership().find(name));
}

Peer Worker::peer(int rank) {
  net::Runtime::require_threads();
  return peer_of(core_->membership().find(rank));
}

// A Peer keeps its worker's parts also if this is only what current() gives, which does not: the Peer may outlive the
// function that made it.
Peer Worker::peer_of(std::shared_ptr<const net::Record> record) {
  return {core_->shared_from_this(), std::move(record), core_->options().call_timeout};
}

Peer Worker::wait_for(const std::string& name, std::chrono::milliseconds timeout) {
  net::Runtime::require_threads();
  return peer_of(core_->membership().wait_for(name, timeout));
}

Peer Worker::self() { return peer(name()); }

std::vector<Peer> Worker::peers() {
  net::Runtime::require_threads();
  std::vector<Peer> peers;
  for (const auto& record : core_->membership().all()) peers.push_back(peer_of(record));
  return peers;
}

void Worker::on_peer_event(std::function<void(const PeerEvent&)> callback) {
  net::Runtime::require_threads();
  core_->membership().watch(std::move(callback));
}

void Worker::leave(std::chrono::milliseconds timeout) { core_->leave(timeout); }

const std::shared_ptr<net::Runtime>& Peer::runtime() const { return worker_->runtime(); }

void Peer::start(const Target& target, wire::Payload arguments, const std::shared_ptr<FutureState>& state) const {
  worker_->calls().start(record_, target, std::move(arguments), state, timeout_);
}

}  // namespace gradwire
