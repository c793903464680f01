// The section of contexts in a message, and why a pass failed: from a worker that may be broken or hostile.
#include "gradwire/autograd/context_messages.h"

namespace {

std::shared_ptr<const gradwire::net::Record> record(const char* name, uint64_t incarnation) {
  return std::make_shared<gradwire::net::Record>(
      gradwire::net::Record{.name = name, .rank = 0, .incarnation = gradwire::Incarnation{incarnation}});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire::autograd;
  static const auto sender = record("sender", 1);
  static const auto receiver = record("receiver", 2);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const ContextSection section = decode_context_section(bytes, sender, receiver);
    // What was accepted can be said again, and means the same.
    gradwire::wire::ByteWriter again;
    encode(again, section, sender, receiver);
    const ContextSection same = decode_context_section(again.bytes(), sender, receiver);
    if (same.context != section.context || same.more != section.more || same.no_grad != section.no_grad ||
        same.hop.has_value() != section.hop.has_value())
      __builtin_trap();
    if (section.hop &&
        (same.hop->tensors != section.hop->tensors || same.hop->ancestors.size() != section.hop->ancestors.size()))
      __builtin_trap();
  } catch (const gradwire::wire::MalformedError&) {
    // As it should be.
  }
  try {
    static_cast<void>(decode_cause(bytes, "worker"));
  } catch (const gradwire::wire::MalformedError&) {
    // Likewise.
  }
  return 0;
}
