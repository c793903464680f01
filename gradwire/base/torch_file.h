// Values in files as torch.save writes them, with data alone: torch.load reads them in Python, weights_only too.
#pragma once

#include <string>

#include <ATen/core/ivalue.h>

namespace gradwire {

// The file appears whole or not at all. Throws InvalidArgumentError if it cannot be written.
void write_torch_file(const std::string& path, const c10::IValue& value);
// Throws InvalidArgumentError if there is none, or it is no such file.
c10::IValue read_torch_file(const std::string& path);

}  // namespace gradwire
