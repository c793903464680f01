#include "gradwire/net/outbox.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace gradwire::net {
namespace {

constexpr size_t chunk_size = 256 * 1024;
constexpr size_t batch_size = 256 * 1024;
constexpr size_t most_buffers = 256;
constexpr size_t most_segments_a_batch = 60;

using Offsets = std::map<std::pair<uint64_t, uint32_t>, uint64_t>;

// By message and part.
Offsets offsets_of(const Hello& hello) {
  Offsets offsets;
  for (const BulkOffset& at : hello.unfinished_bulks) offsets.emplace(std::pair(at.number, at.part), at.offset);
  return offsets;
}

}  // namespace

void Batch::clear() {
  buffers_.clear();
  next_ = 0;
  size_ = 0;
  descriptors_.clear();
  own_.clear();
  owners_.clear();
}

void Batch::add(std::string_view bytes, std::shared_ptr<const void> owner) {
  buffers_.push_back({const_cast<char*>(bytes.data()), bytes.size()});
  size_ += bytes.size();
  owners_.push_back(std::move(owner));
}

void Batch::add(std::string bytes) {
  const std::string& kept = own_.emplace_back(std::move(bytes));
  buffers_.push_back({const_cast<char*>(kept.data()), kept.size()});
  size_ += kept.size();
}

void Batch::written(size_t bytes) {
  // The kernel took the descriptors with the first byte.
  if (bytes > 0) descriptors_.clear();
  while (bytes > 0) {
    iovec& buffer = buffers_[next_];
    const size_t part = std::min(bytes, buffer.iov_len);
    buffer.iov_base = static_cast<char*>(buffer.iov_base) + part;
    buffer.iov_len -= part;
    bytes -= part;
    if (buffer.iov_len == 0) ++next_;
  }
  if (empty()) clear();
}

bool Outbox::has_room(const Outgoing& message) const {
  // A message larger than the limit goes alone.
  return held_bytes_ == 0 || held_bytes_ + message.held_bytes() <= limit_;
}

uint64_t Outbox::push(std::shared_ptr<Outgoing> message, Admission admission) {
  if (admission == Admission::waits_for_room) {
    ++joined_;
    if (!waiting_.empty() || !has_room(*message)) {
      waiting_.push_back(std::move(message));
      return joined_;
    }
    ++admitted_;
  }
  admit(std::move(message));
  return admission == Admission::always ? admitted_ : joined_;
}

void Outbox::admit(std::shared_ptr<Outgoing> message) {
  message->number = ++last_number_;
  message->passengers = nullptr;
  patch_number(message->frame.data(), message->number);
  held_bytes_ += message->held_bytes();
  bytes_ += message->bytes();
  unacknowledged_.push_back(std::move(message));
}

void Outbox::admit_waiting() {
  while (!waiting_.empty() && has_room(*waiting_.front())) {
    admit(std::move(waiting_.front()));
    waiting_.pop_front();
    ++admitted_;
  }
}

void Outbox::release(size_t bytes) { held_bytes_ -= bytes; }

bool Outbox::acknowledge(uint64_t number, Handled& handled) {
  if (number < acknowledged_ || number > acknowledged_ + next_) return false;
  if (number == acknowledged_) return true;
  while (acknowledged_ < number) {
    ++acknowledged_;
    release(unacknowledged_.front()->frame.size());
    handled.push_back(std::move(unacknowledged_.front()));
    unacknowledged_.pop_front();
    --next_;
  }
  admit_waiting();
  return true;
}

bool Outbox::finish_bulk(uint64_t number, uint32_t part) {
  const auto is_it = [&](const Stream& stream) {
    return stream.message->number == number && stream.message->bulks[stream.bulk].part == part;
  };
  // It may say so before all was written: a refused bulk is finished at once.
  std::deque<Stream>* among = &sent_streams_;
  auto found = std::find_if(among->begin(), among->end(), is_it);
  if (found == among->end()) {
    among = &streaming_;
    found = std::find_if(among->begin(), among->end(), is_it);
    if (found == among->end()) return false;
  }
  const Stream stream = std::move(*found);
  among->erase(found);
  Outgoing::Bulk& bulk = stream.message->bulks[stream.bulk];
  bulk.finished = true;
  bulk.owner.reset();
  release(bulk.bytes.size());
  admit_waiting();
  return true;
}

std::string Outbox::impossible(const Hello& hello) const {
  if (hello.last_handled < acknowledged_ || hello.last_handled > acknowledged_ + next_)
    return fmt::format("it says it handled {} messages, which cannot be", hello.last_handled);
  if (hello.unfinished_bulks.empty()) return "";
  std::map<std::pair<uint64_t, uint32_t>, const Outgoing::Bulk*> started;
  for (const auto* streams : {&streaming_, &sent_streams_}) {
    for (const Stream& stream : *streams) {
      const Outgoing::Bulk& bulk = stream.message->bulks[stream.bulk];
      if (stream.message->number <= hello.last_handled)
        started.emplace(std::pair(stream.message->number, bulk.part), &bulk);
    }
  }
  for (const BulkOffset& listed : hello.unfinished_bulks) {
    const auto found = started.find({listed.number, listed.part});
    // With all its bytes it would be finished; beyond what was written the peer has none.
    if (found == started.end() || listed.offset >= found->second->bytes.size() || listed.offset > found->second->offset)
      return fmt::format("it says it has {} bytes of message {}, part {}, which cannot be", listed.offset,
                         listed.number, listed.part);
  }
  return "";
}

size_t Outbox::most_list_bytes() const {
  return empty_lists_size + listed_bulk_size * (streaming_.size() + sent_streams_.size()) +
         listed_segment_size * passed_.size();
}

void Outbox::resume(const Hello& hello, SegmentPool* unusable) {
  // Bulks of handled messages go on where the peer says, and are finished if it does not name them (L7).
  std::vector<Stream> started(std::make_move_iterator(streaming_.begin()), std::make_move_iterator(streaming_.end()));
  std::move(sent_streams_.begin(), sent_streams_.end(), std::back_inserter(started));
  streaming_.clear();
  sent_streams_.clear();
  std::sort(started.begin(), started.end(), [](const Stream& a, const Stream& b) {
    return std::pair(a.message->number, a.bulk) < std::pair(b.message->number, b.bulk);
  });
  const Offsets offsets = offsets_of(hello);
  for (Stream& stream : started) {
    Outgoing::Bulk& bulk = stream.message->bulks[stream.bulk];
    if (stream.message->number > hello.last_handled) {
      bulk.offset = 0;  // started again, behind its header
      continue;
    }
    const auto listed = offsets.find({stream.message->number, bulk.part});
    if (listed == offsets.end()) {
      bulk.finished = true;
      bulk.owner.reset();
      release(bulk.bytes.size());
    } else {
      bulk.offset = listed->second;
      streaming_.push_back(stream);
    }
  }
  Handled handled;
  acknowledge(hello.last_handled, handled);
  next_ = 0;
  passed_ = {hello.segments.begin(), hello.segments.end()};
  if (unusable != nullptr) {
    const auto stream_unless_passed = [&](Outgoing& message) {
      if (std::any_of(message.loans.begin(), message.loans.end(),
                      [&](const Outgoing::Loan& loan) { return !passed_.contains(loan.segment->id()); }))
        message.stream_from_segments(*unusable);
    };
    for (const std::shared_ptr<Outgoing>& message : unacknowledged_) {
      held_bytes_ -= message->held_bytes();
      stream_unless_passed(*message);
      held_bytes_ += message->held_bytes();
    }
    for (const std::shared_ptr<Outgoing>& message : waiting_) stream_unless_passed(*message);
  }
  admit_waiting();
}

bool Outbox::pass_segments(Batch& batch, const Outgoing& message) {
  std::vector<const Segment*> fresh;
  for (const Outgoing::Loan& loan : message.loans)
    if (!passed_.contains(loan.segment->id())) fresh.push_back(loan.segment.get());
  if (fresh.empty()) return true;
  wire::ByteWriter payload;
  size_t count = std::min(fresh.size(), most_segments_a_batch - batch.descriptor_count());
  payload.put(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    payload.put(fresh[i]->id());
    payload.put(static_cast<uint64_t>(fresh[i]->size()));
    batch.add_descriptor(fresh[i]->descriptor());
    passed_.insert(fresh[i]->id());
  }
  std::string frame;
  encode(frame, {.payload_size = static_cast<uint32_t>(payload.size()),
                 .kind = FrameKind::segments,
                 .acknowledged = acknowledged_by_us_});
  batch.add(frame + payload.bytes());
  return count == fresh.size();
}

void Outbox::gather(Batch& batch, uint64_t handled) {
  acknowledged_by_us_ = handled;
  while (next_ < unacknowledged_.size() && batch.size() < batch_size && batch.buffer_count() < most_buffers) {
    const std::shared_ptr<Outgoing>& message = unacknowledged_[next_];
    if (!message->loans.empty() && !pass_segments(batch, *message)) return;
    patch_acknowledged(message->frame.data(), handled);
    batch.add(message->frame, message);
    ++next_;
    for (size_t bulk = 0; bulk < message->bulks.size(); ++bulk)
      if (!message->bulks[bulk].finished) streaming_.push_back({message, bulk});
  }
  // One large chunk, or several small ones.
  while (!streaming_.empty() && batch.size() < batch_size && batch.buffer_count() < most_buffers)
    add_chunk(batch, handled);
}

void Outbox::add_chunk(Batch& batch, uint64_t handled) {
  // Taken off the front last: without memory for the rest, the stream must not be lost.
  const Stream stream = streaming_.front();
  Outgoing::Bulk& bulk = stream.message->bulks[stream.bulk];
  const size_t size = std::min(chunk_size, bulk.bytes.size() - bulk.offset);
  wire::ByteWriter prefix;
  encode(prefix.bytes(), {.payload_size = static_cast<uint32_t>(chunk_prefix_size + size),
                          .kind = FrameKind::chunk,
                          .number = stream.message->number,
                          .acknowledged = handled});
  prefix.put(bulk.part);
  prefix.put(bulk.offset);
  batch.add(prefix.take());
  batch.add(bulk.bytes.substr(bulk.offset, size), bulk.owner);
  (bulk.offset + size < bulk.bytes.size() ? streaming_ : sent_streams_).push_back(stream);
  bulk.offset += size;
  streaming_.pop_front();
}

bool Outbox::only_heads_left() const {
  return waiting_.empty() && streaming_.empty() && sent_streams_.empty() &&
         std::all_of(unacknowledged_.begin() + static_cast<std::ptrdiff_t>(next_), unacknowledged_.end(),
                     [](const std::shared_ptr<Outgoing>& message) { return message->bulks.empty(); });
}

void Outbox::clear() {
  unacknowledged_.clear();
  waiting_.clear();
  streaming_.clear();
  sent_streams_.clear();
  next_ = 0;
  held_bytes_ = 0;
  admitted_ = joined_;
}

}  // namespace gradwire::net
