// The one place that knows how torch's versions differ.
//
// Nodes of the autograd graph are held by std::shared_ptr up to 2.11 and by c10::intrusive_ptr from 2.13 on, and
// Engine's virtual functions change between minor versions: a library built with one version must not run with another.
#pragma once

#include <string>

#include <torch/csrc/autograd/function.h>

namespace gradwire {

using NodePointer = decltype(torch::autograd::Edge::function);

// "2.13": what this library was built with, and what is loaded.
std::string torch_version_at_build();
std::string torch_version_loaded();
// Throws InvalidArgumentError, with the cure, if they differ.
void require_same_torch(const std::string& built, const std::string& loaded);

}  // namespace gradwire
