// A tensor's way over the wire without a network: what a link does, in a few lines.
#pragma once

#include <utility>
#include <vector>

#include <c10/core/CPUAllocator.h>

#include "gradwire/wire/tensor.h"

namespace gradwire::wire {

inline std::vector<c10::DataPtr> memory_for(const TensorDescription& description) {
  std::vector<c10::DataPtr> memory;
  for (const auto& part : description.parts) {
    memory.push_back(part.byte_count == 0 ? c10::DataPtr() : c10::GetCPUAllocator()->allocate(part.byte_count));
  }
  return memory;
}

inline at::Tensor round_trip(const at::Tensor& tensor) {
  FlatTensor flat = wire::flatten(tensor);
  ByteWriter writer;
  encode(writer, flat.description);
  ByteReader reader(writer.bytes());
  TensorDescription description = decode_description(reader);
  reader.expect_end("a tensor description");
  auto memory = memory_for(description);
  for (size_t i = 0; i < memory.size(); ++i) {
    copy_part(flat.parts[i], memory[i].get());
  }
  return assemble(description, std::move(memory));
}

}  // namespace gradwire::wire
