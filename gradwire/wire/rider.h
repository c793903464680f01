// What travels beside the bytes and tensors of a payload without being either: references. Here a rider only has its
// place in the order of values; how it is written is up to the layer that makes it.
#pragma once

#include <memory>

#include <ATen/core/ivalue.h>
#include <ATen/core/rref_interface.h>

namespace gradwire::wire {

// Any thread.
class Rider {
 public:
  virtual ~Rider() = default;
  // As scripts know it: a value of TorchScript's type RRef, for a referent of that type.
  virtual c10::intrusive_ptr<c10::RRefInterface> for_script(const c10::TypePtr& referent) = 0;
};

// An RRef of TorchScript that can travel.
class ScriptRider : public c10::RRefInterface {
 public:
  virtual std::shared_ptr<Rider> rider() const = 0;
};

}  // namespace gradwire::wire
