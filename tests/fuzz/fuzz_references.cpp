// The section of references in a message, which comes from a worker that may be broken or hostile.
#include "gradwire/rref/reference_section.h"

namespace {

std::shared_ptr<const gradwire::net::Record> record(const char* name, uint64_t incarnation) {
  return std::make_shared<gradwire::net::Record>(
      gradwire::net::Record{.name = name, .rank = 0, .incarnation = gradwire::Incarnation{incarnation}});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto sender = record("sender", 1);
  static const auto receiver = record("receiver", 2);
  try {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const gradwire::ReferenceSection section = gradwire::decode_section(bytes, sender, receiver);
    // What was accepted can be said again, and means the same.
    gradwire::wire::ByteWriter again;
    gradwire::encode(again, section, sender->incarnation, receiver->incarnation);
    const gradwire::ReferenceSection same = gradwire::decode_section(again.bytes(), sender, receiver);
    if (same.inside != section.inside || same.references.size() != section.references.size()) __builtin_trap();
    for (size_t i = 0; i < same.references.size(); ++i)
      if (same.references[i].id != section.references[i].id || same.references[i].fork != section.references[i].fork ||
          same.references[i].owner->incarnation != section.references[i].owner->incarnation)
        __builtin_trap();
  } catch (const gradwire::wire::MalformedError&) {
    // As it should be.
  }
  return 0;
}
