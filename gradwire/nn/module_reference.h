// What can be done with a torch::nn module that lives at another worker, whatever its type.
//
//   gradwire::RRef<Net> net = worker->peer("worker1").make<Net>(64, 10);
//   std::vector<gradwire::RRef<torch::Tensor>> parameters = gradwire::nn::parameters(net).get();
//   gradwire::nn::eval(net).get();
//
// The type is registered with Registry::add_type, like any other.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "gradwire/rref/rref.h"

namespace gradwire::nn {

// A reference to a module of any type: every RRef<T> of one, and RemoteModule, is one.
class ModuleReference {
 public:
  template <class T>
  ModuleReference(const RRef<T>& module) : reference_(module.reference()) {  // NOLINT(google-explicit-constructor)
    static_assert(std::is_base_of_v<torch::nn::Module, Referred<T>>, "this is a reference to no torch::nn module");
  }
  explicit ModuleReference(std::shared_ptr<Reference> reference) : reference_(std::move(reference)) {}
  const std::shared_ptr<Reference>& reference() const { return reference_; }

 private:
  std::shared_ptr<Reference> reference_;
};

// References to what lives there, in the order of torch's own functions of these names.
Future<std::vector<RRef<at::Tensor>>> parameters(const ModuleReference& module);
// Of several modules, one after the other: parameters({encoder, decoder}).
Future<std::vector<RRef<at::Tensor>>> parameters(const std::vector<ModuleReference>& modules);
Future<std::vector<std::pair<std::string, RRef<at::Tensor>>>> named_parameters(const ModuleReference& module);
Future<std::vector<std::pair<std::string, RRef<at::Tensor>>>> named_buffers(const ModuleReference& module);

// The names of all modules below it.
Future<std::vector<std::string>> submodules(const ModuleReference& module);

Future<void> train(const ModuleReference& module, bool on = true);
Future<void> eval(const ModuleReference& module);

// The values of all parameters and buffers, as copies.
struct NamedValue {
  std::string name;
  at::Tensor value;
  bool buffer = false;
};
Future<std::vector<NamedValue>> state(const ModuleReference& module);
// All of them, and no others; fails, and changes nothing, if a name or a shape differs.
Future<void> load_state(const ModuleReference& module, const std::vector<NamedValue>& values);

// For Worker::join.
void add_modules(Registry& registry);

}  // namespace gradwire::nn

namespace gradwire {

template <>
struct Codec<nn::ModuleReference> {
  static void encode(wire::Encoder& encoder, const nn::ModuleReference& module) {
    put_reference(encoder, module.reference(), ReferenceRider::Use::value);
  }
  static nn::ModuleReference decode(wire::Decoder& decoder) { return nn::ModuleReference(take_reference(decoder)); }
  static std::string signature() { return "Module"; }
};

}  // namespace gradwire
