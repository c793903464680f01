#include "gradwire/rref/reference.h"

#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include "gradwire/rref/references.h"
#include "gradwire/wire/decoder.h"
#include "gradwire/wire/encoder.h"

namespace gradwire {
namespace {

// A reference as TorchScript knows it. Scripts may take it, keep it and give it on; its value they cannot have:
// `to_here` and `local_value` are torch's own and know only torch's references.
class ScriptReference : public wire::ScriptRider {
 public:
  ScriptReference(std::shared_ptr<Reference> reference, c10::TypePtr type)
      : reference_(std::move(reference)), type_(std::move(type)) {}
  std::shared_ptr<wire::Rider> rider() const override {
    if (std::exception_ptr failure = reference_->failure()) std::rethrow_exception(failure);
    return std::make_shared<ReferenceRider>(reference_);
  }
  c10::worker_id_t owner() const override { return static_cast<c10::worker_id_t>(reference_->owner()->rank); }
  std::string ownerName() const override { return reference_->owner()->name; }
  bool isOwner() const override { return reference_->is_owner(); }
  bool confirmedByOwner() const override { return reference_->confirmed(); }
  const c10::TypePtr type() const override { return type_; }  // NOLINT: torch's signature

 private:
  const std::shared_ptr<Reference> reference_;
  const c10::TypePtr type_;
};

}  // namespace

Reference::~Reference() { table_->dropped(*this); }

bool Reference::confirmed() const { return table_->confirmed(*this); }

std::exception_ptr Reference::failure() const {
  if (creation_ && creation_->failed()) {
    try {
      creation_->value();
    } catch (const PeerGoneError& gone) {
      if (std::exception_ptr owner_gone = table_->owner_gone(*this)) return owner_gone;
      return std::make_exception_ptr(OwnerGoneError(gone.what(), gone.worker(), gone.reason()));
    } catch (...) {
      return std::current_exception();
    }
  }
  return table_->owner_gone(*this);
}

std::string to_string(const Reference& reference) {
  return fmt::format("RRef {} at {}", to_string(reference.id()), reference.owner()->name);
}

c10::intrusive_ptr<c10::RRefInterface> ReferenceRider::for_script(const c10::TypePtr& referent) {
  return c10::make_intrusive<ScriptReference>(reference, referent);
}

std::shared_ptr<Reference> take_reference(wire::Decoder& decoder) {
  return static_cast<ReferenceRider&>(*decoder.take_rider()).reference;
}

void put_reference(wire::Encoder& encoder, const std::shared_ptr<Reference>& reference, ReferenceRider::Use use) {
  if (std::exception_ptr failure = reference->failure()) std::rethrow_exception(failure);
  encoder.put_rider(std::make_shared<ReferenceRider>(reference, use));
}

}  // namespace gradwire
