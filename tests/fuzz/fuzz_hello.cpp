// A Hello's payload: what anyone who reaches the socket can send first.
#include "gradwire/net/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    // The fixed part is judged before the rest has come: it says the same as the whole.
    const auto part = gradwire::net::decode_fixed_part({reinterpret_cast<const char*>(data), size});
    const gradwire::net::Hello hello = gradwire::net::decode_hello({reinterpret_cast<const char*>(data), size});
    if (!part || part->hello.mine != hello.mine || part->hello.last_handled != hello.last_handled) __builtin_trap();
    // What is accepted and of this version encodes to the same bytes.
    if (hello.version == gradwire::net::protocol_version) {
      const std::string frame = gradwire::net::encode_hello(hello);
      if (frame.substr(gradwire::net::frame_header_size) != std::string(reinterpret_cast<const char*>(data), size))
        __builtin_trap();
    }
  } catch (const gradwire::wire::MalformedError&) {
    // As it should be.
  }
  return 0;
}
