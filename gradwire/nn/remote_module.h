// A torch::nn module that lives at another worker, used as if it were here.
//
//   gradwire::nn::RemoteModule<Net> net(worker->peer("worker1"), 64, 10);  // Net(64, 10), built and kept there
//   torch::Tensor y = net.forward(x);
//   gradwire::Future<torch::Tensor> later = net.forward_async(x);
//
// Its type is registered, with its method "forward":
//   registry.add_type<Net>("Net").constructor<int64_t, int64_t>().method("forward", &Net::forward);
#pragma once

#include <utility>

#include "gradwire/nn/module_reference.h"

namespace gradwire::nn {

// A copyable handle; all copies are the same module. Any thread.
template <class T>
class RemoteModule {
 public:
  template <class... Given>
  explicit RemoteModule(const Peer& owner, Given&&... given)
      : reference_(owner.make<T>(std::forward<Given>(given)...)) {}
  explicit RemoteModule(RRef<T> reference) : reference_(std::move(reference)) {}

  template <class... Given>
  auto forward(Given&&... given) const {
    return forward_async(std::forward<Given>(given)...).get();
  }
  template <class... Given>
  auto forward_async(Given&&... given) const {
    return reference_.call(&Referred<T>::forward, std::forward<Given>(given)...);
  }

  Future<std::vector<RRef<at::Tensor>>> parameters() const { return nn::parameters(reference_); }
  auto named_parameters() const { return nn::named_parameters(reference_); }
  auto named_buffers() const { return nn::named_buffers(reference_); }
  void train(bool on = true) const { nn::train(reference_, on).get(); }
  void eval() const { train(false); }

  const RRef<T>& reference() const { return reference_; }
  operator ModuleReference() const { return reference_; }  // NOLINT(google-explicit-constructor)

 private:
  RRef<T> reference_;
};

}  // namespace gradwire::nn
