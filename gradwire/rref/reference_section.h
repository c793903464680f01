// The section of references in a message, and the messages of the protocol: docs/references.md, "Bytes".
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "gradwire/base/id.h"
#include "gradwire/net/message.h"
#include "gradwire/net/record.h"
#include "gradwire/wire/bytes.h"

namespace gradwire {

inline constexpr net::MessageType adopt_type{24};         // child -> owner: a section of its own
inline constexpr net::MessageType adopt_answer_type{25};  // owner -> child: fork, whether it is entered
inline constexpr net::MessageType adopted_type{26};       // child -> giver: reference and fork
inline constexpr net::MessageType release_type{27};       // holder -> owner: references and forks

enum class Passing : uint8_t {
  creation = 1,    // the message makes it; with the creator's fork
  to_owner = 2,    // the id only
  operation = 3,   // the same, of what the message calls a method of, and whose calls run one at a time
  from_owner = 4,  // with a fork that the owner has entered
  child = 5,       // with a fork that the receiver must adopt
  adoption = 6,    // in an Adopt: the fork that was given
  lost = 7,        // it is lost, or its owner gone: nothing can be done with it any more
};

struct PassedReference {
  Passing passing{};
  Id id;
  uint64_t creation = 0;
  Id fork;  // of a creation, from_owner, child
  std::shared_ptr<const net::Record> owner;
  std::shared_ptr<const net::Record> creator;
};

struct ReferenceSection {
  std::vector<PassedReference> references;
  // Objects whose calls run one at a time and that the sender is inside of.
  std::vector<Id> inside;
};

void encode(wire::ByteWriter& to, const ReferenceSection& section, Incarnation sender, Incarnation receiver);
// Throws MalformedError.
ReferenceSection decode_section(std::string_view bytes, const std::shared_ptr<const net::Record>& sender,
                                const std::shared_ptr<const net::Record>& receiver);

}  // namespace gradwire
