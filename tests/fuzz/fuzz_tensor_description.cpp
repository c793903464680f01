// Tensors: the description, then the bytes of the parts.
#include <algorithm>
#include <cstring>

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>

#include "gradwire/wire/tensor.h"

namespace {

using namespace gradwire::wire;

// As a link does, for parts no larger than what came; torch then gets a look at what was made of it.
void receive(ByteReader& reader) {
  TensorDescription description = decode_description(reader);
  std::vector<c10::DataPtr> memory;
  for (const auto& part : description.parts) {
    auto bytes = reader.take_bytes(part.byte_count);
    memory.push_back(bytes.empty() ? c10::DataPtr() : c10::GetCPUAllocator()->allocate(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), static_cast<char*>(memory.back().get()));
  }
  at::Tensor tensor = assemble(description, std::move(memory));
  ByteWriter writer;
  encode(writer, flatten(tensor).description);
  bool small = std::ranges::all_of(description.sizes, [](int64_t size) { return size < 20; });
  if (tensor.defined() && description.layout != c10::Layout::Strided && tensor.dim() < 4 && small &&
      description.dtype == c10::ScalarType::Float) {
    (void)tensor.to_dense();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool single_threaded = (at::set_num_threads(1), true);
  (void)single_threaded;
  ByteReader reader({reinterpret_cast<const char*>(data), size});
  try {
    receive(reader);
  } catch (const MalformedError&) {
  }
  return 0;
}
