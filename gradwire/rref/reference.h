// A handle on something that lives at a worker, its owner, whatever its type: what the copies of an RRef share.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "gradwire/base/id.h"
#include "gradwire/net/record.h"
#include "gradwire/rpc/future_state.h"
#include "gradwire/rref/referent.h"
#include "gradwire/wire/rider.h"

namespace gradwire {

class References;
class Registry;
class WorkerCore;

// What stands in front of a reference's life here; the table of references hears of its end. Any thread.
class Reference {
 public:
  Reference(std::shared_ptr<References> table, Id id, std::shared_ptr<const net::Record> owner,
            std::shared_ptr<Referent> referent, std::shared_ptr<FutureStateOf<void>> creation)
      : table_(std::move(table)),
        id_(id),
        owner_(std::move(owner)),
        referent_(std::move(referent)),
        creation_(std::move(creation)) {}
  ~Reference();
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  Id id() const { return id_; }
  const std::shared_ptr<const net::Record>& owner() const { return owner_; }
  // At the owner; null elsewhere.
  const std::shared_ptr<Referent>& referent() const { return referent_; }
  bool is_owner() const { return referent_ != nullptr; }
  // Whether the owner knows of this worker's part in it.
  bool confirmed() const;
  // Why it cannot be used any more, as far as is known here: its creation timed out, its owner is gone. Else null.
  std::exception_ptr failure() const;
  const std::shared_ptr<References>& table() const { return table_; }
  // Of the call that makes it, at its creator elsewhere than at the owner; else null.
  const std::shared_ptr<FutureStateOf<void>>& creation() const { return creation_; }

 private:
  const std::shared_ptr<References> table_;
  const Id id_;
  const std::shared_ptr<const net::Record> owner_;
  const std::shared_ptr<Referent> referent_;
  const std::shared_ptr<FutureStateOf<void>> creation_;
};

// "RRef 1f0c...:7 at worker1".
std::string to_string(const Reference& reference);

// A reference in a message.
class ReferenceRider : public wire::Rider {
 public:
  enum class Use : uint8_t {
    value,      // an argument or a result
    creation,   // the message makes it
    operation,  // the message calls a method whose calls run one at a time
  };
  explicit ReferenceRider(std::shared_ptr<Reference> given, Use used = Use::value)
      : reference(std::move(given)), use(used) {}
  c10::intrusive_ptr<c10::RRefInterface> for_script(const c10::TypePtr& referent) override;

  const std::shared_ptr<Reference> reference;
  const Use use;
};

// What a user's RRef needs of its worker. Throw InvalidArgumentError once the worker is gone.
std::shared_ptr<WorkerCore> worker_of(const Reference& reference);
const Registry& registry_of(const Reference& reference);
std::chrono::milliseconds default_timeout(const WorkerCore& worker);
// The value, at its owner; waits for it. Throws its error, and InvalidArgumentError elsewhere or for another type.
Kept local_value(const Reference& reference, const ValueType& type);
// What the IValue refers to. Throws InvalidArgumentError.
std::shared_ptr<Reference> reference_in(const c10::IValue& value);
// PeerGoneError as OwnerGoneError, any other as it is.
std::exception_ptr as_owner_gone(std::exception_ptr error);

// The next rider of what is decoded, which must be a reference.
std::shared_ptr<Reference> take_reference(wire::Decoder& decoder);
// Throws what is wrong with a reference that cannot be passed on.
void put_reference(wire::Encoder& encoder, const std::shared_ptr<Reference>& reference, ReferenceRider::Use use);

}  // namespace gradwire
