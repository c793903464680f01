// What Worker, Peer and RRef need of the worker's references.
#include <fmt/format.h>

#include "gradwire/rpc/error_on_wire.h"
#include "gradwire/rpc/worker_core.h"
#include "gradwire/rref/references.h"
#include "gradwire/rref/registered_type.h"

namespace gradwire {

std::shared_ptr<Reference> Peer::create(const Target& target, wire::Payload arguments) const {
  net::Runtime::require_threads();
  auto state = std::make_shared<FutureStateOf<void>>(runtime());
  std::shared_ptr<Reference> reference = References::of(*worker_)->create(record_, state);
  arguments.riders.insert(arguments.riders.begin(),
                          std::make_shared<ReferenceRider>(reference, ReferenceRider::Use::creation));
  start(target, std::move(arguments), state);
  return reference;
}

std::string Peer::type_name(const std::type_info& type) const {
  return registered_type(worker_->calls().registry(), type).name;
}

std::shared_ptr<Reference> Worker::share_kept(Kept kept) {
  net::Runtime::require_threads();
  return References::of(*core_)->share(std::move(kept));
}

ReferenceReport Worker::debug() { return References::of(*core_)->report(); }

std::shared_ptr<WorkerCore> worker_of(const Reference& reference) {
  net::Runtime::require_threads();
  std::shared_ptr<WorkerCore> core = reference.table()->place().core.lock();
  if (!core)
    throw InvalidArgumentError(fmt::format("the worker that held {} is gone: join again", to_string(reference)));
  return core;
}

const Registry& registry_of(const Reference& reference) { return worker_of(reference)->calls().registry(); }

std::chrono::milliseconds default_timeout(const WorkerCore& worker) { return worker.options().call_timeout; }

Kept local_value(const Reference& reference, const ValueType& type) {
  if (!reference.is_owner())
    throw InvalidArgumentError(
        fmt::format("local() of {} at another worker than its owner: use fetch(), or call its methods",
                    to_string(reference)),
        reference.owner()->name);
  const std::shared_ptr<Referent>& referent = reference.referent();
  if (!referent->ready()) {
    auto state = std::make_shared<FutureStateOf<void>>(worker_of(reference)->runtime());
    referent->when_ready([state] { state->set({}); });
    state->wait();
  }
  if (referent->kept() == nullptr) std::rethrow_exception(decode_error(referent->error(), reference.owner()->name));
  const Kept& kept = *referent->kept();
  if (kept.type->type != type.type)
    throw InvalidArgumentError(
        fmt::format("{} refers to a {}, and was used as a {}", to_string(reference), kept.type->name, type.name));
  return kept;
}

std::shared_ptr<Reference> reference_in(const c10::IValue& value) {
  const auto* rider = value.isRRef() ? dynamic_cast<const wire::ScriptRider*>(value.toRRef().get()) : nullptr;
  if (rider == nullptr)
    throw InvalidArgumentError(fmt::format("an IValue of kind {} is not a reference of Gradwire's", value.tagKind()));
  return static_cast<const ReferenceRider&>(*rider->rider()).reference;
}

std::exception_ptr as_owner_gone(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const OwnerGoneError&) {
    return error;
  } catch (const PeerGoneError& gone) {
    return std::make_exception_ptr(OwnerGoneError(gone.what(), gone.worker(), gone.reason()));
  } catch (...) {
    return error;
  }
}

}  // namespace gradwire
