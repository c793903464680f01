// A value on the wire: a few bytes and a list of tensors. The tensors' elements are never inside the bytes, so that
// links can move them without another copy.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace gradwire::wire {

class Rider;

struct Payload {
  std::string bytes;
  std::vector<at::Tensor> tensors;             // in the order in which the value names them; undefined ones too
  std::vector<std::shared_ptr<Rider>> riders;  // references, likewise in order
};

}  // namespace gradwire::wire
