// The error in a reply, which comes from a worker that may be broken or hostile.
#include "gradwire/rpc/error_on_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::exception_ptr error = gradwire::decode_error({reinterpret_cast<const char*>(data), size}, "worker1");
    try {
      std::rethrow_exception(error);
    } catch (const gradwire::Error& caught) {
      // What was accepted can be passed on to the next caller.
      if (caught.worker() != "worker1" || gradwire::encode_thrown(error, "worker0", "function").empty())
        __builtin_trap();
    }
  } catch (const gradwire::wire::MalformedError&) {
    // As it should be.
  }
  return 0;
}
