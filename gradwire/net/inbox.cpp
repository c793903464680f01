#include "gradwire/net/inbox.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "gradwire/base/error.h"
#include "gradwire/net/fork.h"
#include "gradwire/net/outgoing.h"

namespace gradwire::net {
namespace {

// What is kept for a message until it is complete, besides the bytes that came and those that are to come: the Arrival
// and who waits for it, each tensor's description, and for each part its place in memory and in the books.
constexpr size_t kept_a_message = 512;
constexpr size_t kept_a_part = 256;

// Of a list that may have no memory of its own.
template <class List>
size_t memory_of(const List& list, size_t without_memory) {
  constexpr size_t of_an_allocation = 16;
  return list.capacity() <= without_memory ? 0 : list.capacity() * sizeof(*list.data()) + of_an_allocation;
}

size_t memory_of(const wire::TensorDescription& description) {
  const size_t usual_sizes = wire::SizeList().capacity();
  size_t bytes = sizeof description + sizeof(std::vector<c10::DataPtr>) + memory_of(description.sizes, usual_sizes) +
                 memory_of(description.parts, decltype(description.parts)().capacity());
  for (const auto& part : description.parts) bytes += kept_a_part + memory_of(part.sizes, usual_sizes);
  return bytes;
}

}  // namespace

void Arrival::when_settled(std::function<void()> then) {
  {
    MutexLock lock(mutex_);
    if (state_ == State::pending) {
      then_ = std::move(then);
      return;
    }
  }
  then();
}

bool Arrival::settled() {
  MutexLock lock(mutex_);
  return state_ != State::pending;
}

void Arrival::settle(State state, std::exception_ptr lost) {
  std::function<void()> then;
  {
    MutexLock lock(mutex_);
    if (state_ != State::pending) return;
    state_ = state;
    lost_ = std::move(lost);
    then = std::move(then_);
  }
  if (then) then();
}

wire::Payload Arrival::take() {
  {
    MutexLock lock(mutex_);
    if (lost_) std::rethrow_exception(lost_);
  }
  wire::Payload payload{.bytes = std::move(body_)};
  payload.tensors.reserve(descriptions_.size());
  for (size_t i = 0; i < descriptions_.size(); ++i)
    payload.tensors.push_back(wire::assemble(descriptions_[i], std::move(parts_[i])));
  return payload;
}

std::shared_ptr<Arrival> Arrival::of(wire::Payload payload) {
  auto arrival = std::make_shared<Arrival>();
  arrival->body_ = std::move(payload.bytes);
  for (const at::Tensor& tensor : payload.tensors) {
    wire::FlatTensor flat = wire::flatten(tensor);
    std::vector<c10::DataPtr>& memory = arrival->parts_.emplace_back();
    for (size_t i = 0; i < flat.parts.size(); ++i) {
      memory.push_back(c10::GetAllocator(c10::DeviceType::CPU)->allocate(flat.description.parts[i].byte_count));
      wire::copy_part(flat.parts[i], memory.back().get());
    }
    arrival->descriptions_.push_back(std::move(flat.description));
  }
  arrival->settle(State::complete);
  return arrival;
}

void FreeList::add(uint64_t segment) {
  if (forked_child()) return;  // another thread may have had a lock when this process was forked
  bool was_empty;
  {
    MutexLock lock(mutex_);
    was_empty = segments_.empty();
    segments_.push_back(segment);
  }
  if (was_empty) first_();
}

std::vector<uint64_t> FreeList::take() {
  MutexLock lock(mutex_);
  return std::exchange(segments_, {});
}

Delivery Inbox::open(uint64_t number, std::string_view payload) {
  wire::ByteReader reader(payload);
  Delivery delivery;
  delivery.type = MessageType{reader.take<uint16_t>()};
  const auto boarded_size = reader.take<uint32_t>();
  delivery.head = reader.take_bytes(reader.take<uint32_t>());
  const auto body_size = reader.take<uint64_t>();
  const auto tensor_count = reader.take<uint32_t>();
  if (tensor_count > std::min(most_tensors, reader.remaining()))
    throw wire::MalformedError(
        fmt::format("message with {} tensors, and it ends before them or has too many", tensor_count));
  std::vector<wire::TensorDescription> descriptions;
  descriptions.reserve(tensor_count);
  size_t part_count = 1;
  for (uint32_t i = 0; i < tensor_count; ++i) {
    descriptions.push_back(wire::decode_description(reader));
    part_count += descriptions.back().parts.size();
  }
  wire::ByteReader placements(reader.take_bytes(part_count * placement_size));

  // First look at everything, then allocate.
  struct Part {
    Placement placement{};
    uint64_t segment = 0;
    uint64_t size = 0;
  };
  c10::SmallVector<Part, 4> parts;
  parts.reserve(part_count);
  const auto add_part = [&](uint64_t size) {
    Part part{Placement{placements.take<uint8_t>()}, placements.take<uint64_t>(), size};
    if (part.placement > Placement::segment) throw wire::MalformedError("part in an unknown kind of place");
    if (part.placement == Placement::segment) {
      auto found = segments_.find(part.segment);
      if (parts.empty()) throw wire::MalformedError("a message's bytes cannot be in a segment");
      if (found == segments_.end() || found->second->size() < size)
        throw wire::MalformedError(
            fmt::format("part of {} bytes in segment {}, which is unknown or smaller", size, part.segment));
    }
    parts.push_back(part);
  };
  add_part(body_size);
  for (const wire::TensorDescription& description : descriptions)
    for (const auto& part : description.parts) add_part(part.byte_count);
  uint64_t in_frame = 0;
  uint64_t streamed = 0;
  bytes_ += payload.size();
  for (const Part& part : parts) {
    if (part.placement != Placement::in_frame) bytes_ += part.size;
    uint64_t& sum = part.placement == Placement::in_frame ? in_frame : streamed;
    if (part.placement != Placement::segment && __builtin_add_overflow(sum, part.size, &sum))
      throw wire::MalformedError("message whose parts have more bytes than can be counted");
  }
  if (boarded_size > reader.remaining() || in_frame != reader.remaining() - boarded_size)
    throw wire::MalformedError(
        fmt::format("message with {} bytes at its end; {} of small parts and {} aboard announced", reader.remaining(),
                    in_frame, boarded_size));
  delivery.boarded = payload.substr(payload.size() - boarded_size);

  const bool pending =
      std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.placement == Placement::stream; });
  std::shared_ptr<const ArrivalShare> share;
  if (streamed > limits_.largest_message) {
    delivery.refusal =
        fmt::format("a message of {} bytes; {} is the most taken here", streamed, limits_.largest_message);
  } else if (pending) {
    size_t kept = kept_a_message + kept_a_part + payload.size() + streamed;
    for (const wire::TensorDescription& description : descriptions) kept += memory_of(description);
    share = share_of(kept, delivery.refusal);
  }
  if (!delivery.refusal.empty()) {
    // Its chunks are not wanted (see destination), its segments are free at once.
    for (const Part& part : parts)
      if (part.placement == Placement::segment) frees_->add(part.segment);
    delivery.refused_tensors = std::move(descriptions);
    return delivery;
  }

  auto arrival = std::make_shared<Arrival>();
  delivery.arrival = arrival;
  arrival->descriptions_ = std::move(descriptions);
  size_t next = 0;
  const auto take_memory = [&](uint64_t size, c10::DataPtr* owner, std::string* text) {
    const Part& part = parts[next];
    if (part.placement == Placement::segment) {
      *owner = borrow(segments_.at(part.segment));
    } else {
      if (part.placement == Placement::in_frame) {
        const std::string_view bytes = reader.take_bytes(size);
        if (text != nullptr)
          *text = bytes;
        else
          *owner = blocks_->take(size);
        if (owner != nullptr && size != 0) std::memcpy(owner->get(), bytes.data(), size);
      } else {
        Bulk bulk{.arrival = arrival, .size = size, .share = share};
        if (owner != nullptr) {
          Blocks::Announced announced = blocks_->take_announced(size);
          *owner = std::move(announced.memory);
          bulk.memory = static_cast<char*>(owner->get());
          bulk.segment = std::move(announced.segment);
        }
        bulks_.emplace(Key{number, static_cast<uint32_t>(next)}, std::move(bulk));
      }
    }
    ++next;
  };
  try {
    take_memory(body_size, nullptr, &arrival->body_);
    arrival->parts_.reserve(arrival->descriptions_.size());
    for (const wire::TensorDescription& description : arrival->descriptions_) {
      auto& memory = arrival->parts_.emplace_back();
      for (const auto& part : description.parts) take_memory(part.byte_count, &memory.emplace_back(), nullptr);
    }
  } catch (const std::exception& error) {
    // Memory is short here; that is no fault of the peer's. Segments already borrowed free themselves.
    for (size_t i = next; i < parts.size(); ++i)
      if (parts[i].placement == Placement::segment) frees_->add(parts[i].segment);
    for (auto at = bulks_.lower_bound({number, 0}); at != bulks_.end() && at->first.first == number;)
      at = bulks_.erase(at);
    delivery.arrival.reset();
    delivery.refusal = fmt::format("no memory for a message of {} bytes: {}", in_frame + streamed, error.what());
    return delivery;
  }
  if (!pending) arrival->settle(Arrival::State::complete);
  return delivery;
}

char* Inbox::destination(uint64_t number, const Chunk& chunk, size_t size) {
  auto found = bulks_.find({number, chunk.part});
  if (found == bulks_.end()) return nullptr;
  Bulk& bulk = found->second;
  if (chunk.offset != bulk.received || size > bulk.size - bulk.received)
    throw wire::MalformedError(fmt::format("chunk of message {}, part {}: {} bytes at {} of {}, expected at {}", number,
                                           chunk.part, size, chunk.offset, bulk.size, bulk.received));
  if (bulk.size == 0) return nullptr;
  if (bulk.memory != nullptr) {
    if (bulk.segment) bulk.segment->populate_behind(bulk.received);
    return bulk.memory + bulk.received;
  }
  if (bulk.dropped) return nullptr;
  // A size that was only announced makes no memory.
  std::string& text = bulk.arrival->body_;
  const size_t needed = bulk.received + size;
  try {
    if (text.capacity() < needed) text.reserve(std::min<size_t>(bulk.size, std::max(needed, 2 * text.capacity())));
    text.resize(needed);
  } catch (const std::exception& error) {
    // As where a message is opened: memory is short, and that ends this message alone. Its bytes are dropped as they
    // come.
    bulk.dropped = true;
    std::string().swap(text);
    bulk.arrival->settle(
        Arrival::State::lost,
        std::make_exception_ptr(OverloadedError(fmt::format(
            "no memory for a message of {} bytes, of which {} had come: {}", bulk.size, bulk.received, error.what()))));
    return nullptr;
  }
  return text.data() + bulk.received;
}

bool Inbox::chunk_arrived(uint64_t number, const Chunk& chunk, size_t size) {
  auto found = bulks_.find({number, chunk.part});
  // Said once, at its beginning; what is already under way behind that is dropped.
  if (found == bulks_.end()) return chunk.offset == 0;
  found->second.received += size;
  if (found->second.received < found->second.size) return false;
  const std::shared_ptr<Arrival> arrival = found->second.arrival;
  bulks_.erase(found);
  // The parts of one message lie side by side.
  auto sibling = bulks_.lower_bound({number, 0});
  if (sibling == bulks_.end() || sibling->first.first != number) arrival->settle(Arrival::State::complete);
  return true;
}

bool Inbox::add_segments(std::string_view payload, std::vector<Descriptor>& descriptors, std::string& why) {
  wire::ByteReader reader(payload);
  const auto count = reader.take<uint32_t>();
  if (reader.remaining() != size_t{count} * 16)
    throw wire::MalformedError(fmt::format("{} segments announced in {} bytes", count, reader.remaining()));
  if (descriptors.size() < count) {
    why = fmt::format("{} descriptors announced, {} arrived", count, descriptors.size());
    return false;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const auto id = reader.take<uint64_t>();
    const auto size = reader.take<uint64_t>();
    if (segments_.contains(id)) throw wire::MalformedError(fmt::format("segment {} given twice", id));
    if (size > limits_.segment_bytes - segment_bytes_) {
      why =
          fmt::format("{} bytes of segments; {} is the most taken here", segment_bytes_ + size, limits_.segment_bytes);
      return false;
    }
    std::shared_ptr<Segment> segment = Segment::open(id, size, std::move(descriptors[i]), why);
    if (!segment) return false;
    segment_bytes_ += size;
    segments_.emplace(id, std::move(segment));
  }
  descriptors.erase(descriptors.begin(), descriptors.begin() + count);
  return true;
}

void Inbox::retire_segments(std::string_view head) {
  wire::ByteReader reader(head);
  while (reader.remaining() > 0) {
    auto found = segments_.find(reader.take<uint64_t>());
    if (found == segments_.end()) continue;
    segment_bytes_ -= found->second->size();
    segments_.erase(found);
  }
}

std::vector<BulkOffset> Inbox::unfinished() const {
  std::vector<BulkOffset> offsets;
  for (const auto& [key, bulk] : bulks_) offsets.push_back({key.first, key.second, bulk.received});
  return offsets;
}

std::vector<uint64_t> Inbox::segments() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, segment] : segments_) ids.push_back(id);
  return ids;
}

void Inbox::lose(const PeerGoneError& error) {
  auto bulks = std::exchange(bulks_, {});
  std::shared_ptr<Arrival> last;
  for (auto& [key, bulk] : bulks) {
    // Several parts may share one arrival: it is settled once.
    if (bulk.arrival != last) bulk.arrival->settle(Arrival::State::lost, std::make_exception_ptr(error));
    last = bulk.arrival;
  }
  segments_.clear();
  segment_bytes_ = 0;
}

std::shared_ptr<const ArrivalShare> Inbox::share_of(size_t bytes, std::string& why) {
  if (!unfinished_->take(bytes)) {
    why = fmt::format("{} bytes of unfinished messages of one worker; {} is the most taken here",
                      unfinished_->taken() + bytes, unfinished_->bytes());
    return nullptr;
  }
  if (!budget_->take(bytes)) {
    unfinished_->give_back(bytes);
    why = fmt::format(
        "{} bytes of unfinished messages of all workers together; {} is the most that this process takes at once. Send "
        "later, or in smaller parts",
        budget_->taken() + bytes, budget_->bytes());
    return nullptr;
  }
  try {
    return std::make_shared<const ArrivalShare>(unfinished_, budget_, bytes);
  } catch (const std::exception& error) {
    unfinished_->give_back(bytes);
    budget_->give_back(bytes);
    why = error.what();
    return nullptr;
  }
}

c10::DataPtr Inbox::borrow(const std::shared_ptr<Segment>& segment) {
  struct Loan {
    std::shared_ptr<Segment> segment;
    std::shared_ptr<FreeList> frees;
  };
  return {segment->data(), new Loan{segment, frees_},
          [](void* context) {
            const std::unique_ptr<Loan> loan(static_cast<Loan*>(context));
            loan->frees->add(loan->segment->id());
          },
          c10::Device(c10::DeviceType::CPU)};
}

}  // namespace gradwire::net
