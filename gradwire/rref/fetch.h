// The function, on every worker, that gives the value of a reference to who asks for it.
#pragma once

#include "gradwire/rpc/registry.h"
#include "gradwire/rref/reference.h"

namespace gradwire {

void add_fetch(Registry& registry);

// Its arguments: the reference, and the name of the type that is expected.
Target fetch_target();

// For functions that act on what a reference of this worker refers to. Runs `then`, once it is there, with the
// surroundings of now; answers with its error if it failed. Throws InvalidArgumentError if it is not of this worker.
void with_referent(const std::shared_ptr<Reference>& reference, const std::shared_ptr<Reply>& reply,
                   std::function<void(const Kept&)> then);

}  // namespace gradwire
