#include "gradwire/rref/reference_section.h"

#include <fmt/format.h>

#include "gradwire/wire/id.h"

namespace gradwire {
namespace {

// Records that sender and receiver know are not written: these stand for them.
constexpr uint32_t the_sender = 0;
constexpr uint32_t the_receiver = 1;
constexpr uint32_t first_written = 2;

using RecordPointer = std::shared_ptr<const net::Record>;

bool has_fork(Passing passing) {
  return passing == Passing::creation || passing == Passing::from_owner || passing == Passing::child ||
         passing == Passing::adoption;
}

uint32_t take_count(wire::ByteReader& from, size_t least_size) {
  const auto count = from.take<uint32_t>();
  if (count > from.remaining() / least_size) throw wire::MalformedError("references: more announced than there are");
  return count;
}

// A peer can pass only what is its own to pass.
void check(const PassedReference& passed, Incarnation sender, Incarnation receiver) {
  const Incarnation owner = passed.owner->incarnation;
  const Incarnation creator = passed.creator->incarnation;
  bool good = creator == passed.id.maker || passed.passing == Passing::lost;
  switch (passed.passing) {
    case Passing::creation:
      good = good && owner == receiver && creator == sender;
      break;
    case Passing::to_owner:
    case Passing::operation:
    case Passing::adoption:
      good = good && owner == receiver;
      break;
    case Passing::from_owner:
      good = good && owner == sender;
      break;
    case Passing::child:
      good = good && owner != receiver;
      break;
    case Passing::lost:
      break;
  }
  if (!good) throw wire::MalformedError("references: one passed by whom it cannot come from");
}

}  // namespace

void encode(wire::ByteWriter& to, const ReferenceSection& section, Incarnation sender, Incarnation receiver) {
  std::vector<const net::Record*> written;
  const auto place_of = [&](const RecordPointer& record) {
    if (record->incarnation == sender) return the_sender;
    if (record->incarnation == receiver) return the_receiver;
    for (uint32_t i = 0; i < written.size(); ++i)
      if (written[i]->incarnation == record->incarnation) return first_written + i;
    written.push_back(record.get());
    return first_written + static_cast<uint32_t>(written.size()) - 1;
  };
  wire::ByteWriter body;
  for (const PassedReference& passed : section.references) {
    body.put(static_cast<uint8_t>(passed.passing));
    wire::put_id(body, passed.id);
    body.put(passed.creation);
    body.put(place_of(passed.owner));
    body.put(place_of(passed.creator));
    if (has_fork(passed.passing)) wire::put_id(body, passed.fork);
  }
  to.put(static_cast<uint32_t>(written.size()));
  for (const net::Record* record : written) net::encode(to, *record);
  to.put(static_cast<uint32_t>(section.inside.size()));
  for (const Id& id : section.inside) wire::put_id(to, id);
  to.put(static_cast<uint32_t>(section.references.size()));
  to.put_bytes(body.bytes());
}

ReferenceSection decode_section(std::string_view bytes, const RecordPointer& sender, const RecordPointer& receiver) {
  wire::ByteReader from(bytes);
  std::vector<RecordPointer> records{sender, receiver};
  for (uint32_t left = take_count(from, 1); left > 0; --left)
    records.push_back(std::make_shared<net::Record>(net::decode_record(from)));
  const auto take_record = [&] {
    const auto place = from.take<uint32_t>();
    if (place >= records.size()) throw wire::MalformedError("references: a record that is not there");
    return records[place];
  };
  ReferenceSection section;
  for (uint32_t left = take_count(from, 16); left > 0; --left) section.inside.push_back(wire::take_id(from));
  for (uint32_t left = take_count(from, 33); left > 0; --left) {
    PassedReference passed;
    passed.passing = Passing{from.take<uint8_t>()};
    if (passed.passing < Passing::creation || passed.passing > Passing::lost)
      throw wire::MalformedError("references: one passed in an unknown way");
    passed.id = wire::take_id(from);
    passed.creation = from.take<uint64_t>();
    passed.owner = take_record();
    passed.creator = take_record();
    if (has_fork(passed.passing)) passed.fork = wire::take_id(from);
    check(passed, sender->incarnation, receiver->incarnation);
    section.references.push_back(std::move(passed));
  }
  from.expect_end("references");
  return section;
}

}  // namespace gradwire
