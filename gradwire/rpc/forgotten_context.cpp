#include "gradwire/rpc/forgotten_context.h"

#include <algorithm>

#include <c10/core/GradMode.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>

namespace gradwire {
namespace {

// A leaf has no graph that its receiver could miss: a parameter may be sent for its value.
bool has_graph(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad() && !tensor.is_leaf(); }

}  // namespace

void ForgottenContext::look(const wire::Payload& payload, const char* what, const std::string& function,
                            const std::string& receiver) {
  if (!std::any_of(payload.tensors.begin(), payload.tensors.end(), has_graph) || !c10::GradMode::is_enabled()) return;
  const std::string kind = fmt::format("{} of \"{}\"", what, function);
  {
    MutexLock lock(mutex_);
    if (!told_.insert(kind).second) return;
  }
  LOG(WARNING) << "gradwire: " << kind << " requires grad, and arrives detached at " << receiver
               << ", because the call is made without a Context: no gradient flows back. If one should, make a "
                  "gradwire::autograd::Context before the call and use context.backward(loss); if not, send "
                  "tensor.detach(), or compute it under torch::NoGradGuard";
}

}  // namespace gradwire
