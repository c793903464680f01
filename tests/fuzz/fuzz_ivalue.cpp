// Values for operators and TorchScript.
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  c10::IValue value;
  try {
    value = wire::decode<c10::IValue>(fuzz::payload_of(input));
  } catch (const wire::MalformedError&) {
    return 0;
  }
  // What was accepted can be sent on, byte by byte as it came.
  wire::Payload again = wire::encode(value);
  if (again.bytes != input.substr(1)) {
    __builtin_trap();
  }
  return 0;
}
