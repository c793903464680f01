// A value on the wire: a few bytes and a list of tensors. The tensors' elements are never inside the bytes, so that
// links can move them without another copy.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace gradwire::wire {

struct Payload {
  std::string bytes;
  std::vector<at::Tensor> tensors;  // in the order in which the value names them; undefined ones too
};

}  // namespace gradwire::wire
