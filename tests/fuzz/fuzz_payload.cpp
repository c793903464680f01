// Values of C++ types.
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  std::optional<fuzz::Everything> value;
  try {
    value = wire::decode<fuzz::Everything>(fuzz::payload_of(input));
  } catch (const wire::MalformedError&) {
    return 0;
  }
  // What was accepted can be sent on, and is accepted again.
  (void)wire::decode<fuzz::Everything>(wire::encode(*value));
  return 0;
}
