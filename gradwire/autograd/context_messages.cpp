#include "gradwire/autograd/context_messages.h"

#include <map>

#include "gradwire/rpc/error_on_wire.h"
#include "gradwire/wire/id.h"

namespace gradwire::autograd {
namespace {

enum Flag : uint8_t { has_hop = 1, has_more = 2, has_creator = 4, is_open = 8, is_no_grad = 16 };

// Ancestors name their senders by place: the message's sender, its receiver, then those listed.
constexpr uint16_t place_of_sender = 0;
constexpr uint16_t place_of_receiver = 1;
constexpr uint16_t first_listed = 2;

}  // namespace

void encode(wire::ByteWriter& to, const std::vector<uint64_t>& hops) {
  to.put(static_cast<uint64_t>(hops.size()));
  for (const uint64_t hop : hops) to.put(hop);
}

std::vector<uint64_t> decode_hops(wire::ByteReader& from) {
  std::vector<uint64_t> hops(from.take_count(sizeof(uint64_t)));
  for (uint64_t& hop : hops) hop = from.take<uint64_t>();
  return hops;
}

void encode(wire::ByteWriter& to, const std::vector<Ancestor>& ancestors, const RecordPointer& sender,
            const RecordPointer& receiver) {
  std::map<Incarnation, uint16_t> places{{receiver->incarnation, place_of_receiver},
                                         {sender->incarnation, place_of_sender}};
  std::vector<RecordPointer> listed;
  for (const Ancestor& ancestor : ancestors)
    if (places.emplace(ancestor.hop.maker, static_cast<uint16_t>(first_listed + listed.size())).second)
      listed.push_back(ancestor.sender);
  to.put(static_cast<uint64_t>(listed.size()));
  for (const RecordPointer& record : listed) net::encode(to, *record);
  to.put(static_cast<uint64_t>(ancestors.size()));
  for (const Ancestor& ancestor : ancestors) {
    to.put(places.at(ancestor.hop.maker));
    to.put(ancestor.hop.counter);
    to.put(ancestor.open);
  }
}

std::vector<Ancestor> decode_ancestors(wire::ByteReader& from, const RecordPointer& sender,
                                       const RecordPointer& receiver) {
  std::vector<RecordPointer> known{sender, receiver};
  for (size_t count = from.take_count(8); count > 0; --count)
    known.push_back(std::make_shared<net::Record>(net::decode_record(from)));
  std::vector<Ancestor> ancestors(from.take_count(sizeof(uint16_t) + sizeof(uint64_t) + 1));
  for (Ancestor& ancestor : ancestors) {
    const auto place = from.take<uint16_t>();
    if (place >= known.size()) from.fail("a hop of a sender that is not listed");
    ancestor.sender = known[place];
    ancestor.hop = {ancestor.sender->incarnation, from.take<uint64_t>()};
    ancestor.open = from.take<bool>();
  }
  return ancestors;
}

void encode(wire::ByteWriter& to, const ContextSection& section, const RecordPointer& sender,
            const RecordPointer& receiver) {
  uint8_t flags = 0;
  if (section.hop) flags |= has_hop;
  if (section.more) flags |= has_more;
  if (section.creator) flags |= has_creator;
  if (section.hop && section.hop->open) flags |= is_open;
  if (section.no_grad) flags |= is_no_grad;
  to.put(flags);
  wire::put_id(to, section.context);
  if (section.creator) net::encode(to, *section.creator);
  if (section.more) to.put(*section.more);
  if (!section.hop) return;
  to.put(section.hop->counter);
  to.put(static_cast<uint64_t>(section.hop->tensors.size()));
  for (const uint32_t tensor : section.hop->tensors) to.put(tensor);
  encode(to, section.hop->ancestors, sender, receiver);
}

ContextSection decode_context_section(std::string_view bytes, const RecordPointer& sender,
                                      const RecordPointer& receiver) {
  wire::ByteReader from(bytes);
  ContextSection section;
  const auto flags = from.take<uint8_t>();
  section.context = wire::take_id(from);
  section.no_grad = (flags & is_no_grad) != 0;
  if ((flags & has_creator) != 0) {
    section.creator = std::make_shared<net::Record>(net::decode_record(from));
    if (section.creator->incarnation != section.context.maker) from.fail("a context with another's creator");
  } else if (section.context.maker == sender->incarnation) {
    section.creator = sender;
  } else if (section.context.maker == receiver->incarnation) {
    section.creator = receiver;
  }
  if ((flags & has_more) != 0) section.more = from.take<uint64_t>();
  if ((flags & has_hop) != 0) {
    HopSection& hop = section.hop.emplace();
    hop.counter = from.take<uint64_t>();
    hop.open = (flags & is_open) != 0;
    hop.tensors.resize(from.take_count(sizeof(uint32_t)));
    for (uint32_t& tensor : hop.tensors) tensor = from.take<uint32_t>();
    hop.ancestors = decode_ancestors(from, sender, receiver);
  }
  from.expect_end("a section of a context");
  return section;
}

std::string encode_cause(const std::exception_ptr& cause, const std::string& worker) {
  wire::ByteWriter to;
  try {
    std::rethrow_exception(cause);
  } catch (const PeerGoneError& gone) {
    to.put(true);
    to.put(static_cast<uint8_t>(gone.reason()));
    to.put_string(gone.worker());
    to.put_string(gone.what());
  } catch (...) {
    to.put(false);
    to.put_string(encode_thrown(cause, worker, "backward"));
  }
  return to.take();
}

std::exception_ptr decode_cause(std::string_view bytes, const std::string& worker) {
  wire::ByteReader from(bytes);
  if (!from.take<bool>()) return decode_error(from.take_string(), worker);
  const auto reason = GoneReason{from.take<uint8_t>()};
  if (reason > GoneReason::fenced) from.fail("an unknown reason");
  const std::string gone(from.take_string());
  return std::make_exception_ptr(PeerGoneError(std::string(from.take_string()), gone, reason));
}

}  // namespace gradwire::autograd
