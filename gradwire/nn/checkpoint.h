// A model that is split over workers, in one file or in one module.
//
//   gradwire::nn::Parts parts{{"encoder", encoder}, {"decoder", decoder}};
//   gradwire::nn::save(parts, "model.pt");   // Python: model.load_state_dict(torch.load("model.pt"))
//   gradwire::nn::load(parts, "model.pt");   // also what Python wrote: torch.save(dict(model.state_dict()),
//   "model.pt") torch::save(gradwire::nn::gather(parts), "model_archive.pt");   // C++: torch::load(model,
//   "model_archive.pt")
//
// The names are those of the whole: "encoder.weight".
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gradwire/nn/module_reference.h"

namespace gradwire::nn {

using Parts = std::vector<std::pair<std::string, ModuleReference>>;

// A dictionary of names and tensors, as a state_dict is. The file appears whole or not at all.
void save(const Parts& parts, const std::string& path);
// Of all parts, or an error: then some parts may be loaded and others not.
void load(const Parts& parts, const std::string& path);

// Copies of all parameters and buffers, as submodules with the names of the parts.
std::shared_ptr<torch::nn::Module> gather(const Parts& parts);

}  // namespace gradwire::nn
