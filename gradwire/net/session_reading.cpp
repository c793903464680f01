// What arrives on a session's link: rules L6, L7 and L9, acknowledgements, and bad bytes.
#include <c10/util/Logging.h>
#include <fmt/format.h>

#include "gradwire/net/session.h"

namespace gradwire::net {
namespace {

// At most this much is read before others get their turn.
constexpr size_t read_limit = size_t{4} << 20U;
// That wait for the frame that names them: no honest peer has more under way.
constexpr size_t most_unclaimed_descriptors = 256;

}  // namespace

bool Session::read(const std::shared_ptr<Channel>& channel) noexcept {
  try {
    return read_some(channel);
  } catch (const std::exception& error) {
    reading_failed(channel, error.what());
  } catch (...) {
    reading_failed(channel, "something was thrown that is not a std::exception");
  }
  return true;
}

bool Session::read_some(const std::shared_ptr<Channel>& channel) {
  std::shared_ptr<SessionHandler> handler;
  const uint64_t before = handled_;
  {
    MutexLock lock(order_);
    size_t total = 0;
    while (owns(channel.get()) && total < read_limit) {
      const Transfer transfer = channel->fill();
      if (transfer.bytes == 0 && !transfer.closed && total == 0) return false;
      if (transfer.bytes > 0) {
        if (!handler) handler = place_.handler.lock();
        // What answers a dial may be anyone, until it has said who it is.
        if (current_ == channel) heard();
        handle_events(channel, handler.get());
      }
      if (transfer.descriptors_lost && owns(channel.get())) {
        descriptors_failed_ = true;
        link_lost(channel, "the system gave us fewer descriptors than were sent");
      }
      if (channel->descriptors().size() > most_unclaimed_descriptors)
        bad_bytes(channel, "descriptors that no frame announced");
      if (transfer.closed) link_lost(channel, "closed");
      // A short read has emptied the socket: asking again would cost a system call for nothing.
      if (transfer.bytes < 16 * 1024) break;
      total += transfer.bytes;
    }
    if (handled_ != before) acknowledge_soon();
  }
  flush();
  return true;
}

void Session::heard() { last_heard_ = place_.loop->now(); }

void Session::handle_events(const std::shared_ptr<Channel>& channel, SessionHandler* handler) {
  try {
    while (owns(channel.get()) && !ended_) {
      const Channel::Event event = channel->next();
      if (event.kind == Channel::EventKind::none) return;
      if (dial_ && dial_->channel == channel) {
        dial_answered(event);
      } else if (event.kind == Channel::EventKind::chunk_begins) {
        if (!handle_acknowledgement(event.header.acknowledged)) return;
        channel->place_chunk(inbox_.destination(event.header.number, event.chunk, event.chunk_size));
      } else if (event.kind == Channel::EventKind::chunk_ended) {
        if (inbox_.chunk_arrived(event.header.number, event.chunk, event.chunk_size)) {
          wire::ByteWriter part;
          part.put(event.chunk.part);
          answer(FrameKind::bulk_finished, event.header.number, part.bytes());
        }
      } else {
        handle_frame(channel, event, handler);
      }
    }
  } catch (const wire::MalformedError& error) {
    bad_bytes(channel, error.what());
  }
}

void Session::handle_frame(const std::shared_ptr<Channel>& channel, const Channel::Event& event,
                           SessionHandler* handler) {
  if (event.header.kind == FrameKind::fenced) {
    end(GoneReason::fenced, "it has declared this worker dead");
    return;
  }
  if (!handle_acknowledgement(event.header.acknowledged)) return;
  switch (event.header.kind) {
    case FrameKind::message:
      handle_message(event, handler);
      return;
    case FrameKind::acknowledgement:
    case FrameKind::pong:
      return;
    case FrameKind::ping:
      answer(FrameKind::pong);
      return;
    case FrameKind::bulk_finished: {
      const auto part = wire::ByteReader(event.payload).take<uint32_t>();
      MutexLock lock(state_);
      if (!outbox_.finish_bulk(event.header.number, part))
        throw wire::MalformedError(fmt::format("end of a bulk {}/{} that is not under way", event.header.number, part));
      room_.notify_all();
      say_goodbye_if_due();
      return;
    }
    case FrameKind::segments: {
      std::string why;
      if (!inbox_.add_segments(event.payload, channel->descriptors(), why)) {
        LOG(WARNING) << "gradwire: " << mine_.name << " cannot take shared memory from " << peer_->name << ": " << why
                     << ". Large tensors are sent as streams from here on";
        descriptors_failed_ = true;
        link_lost(channel, "to be re-made without descriptors");
      }
      return;
    }
    default:
      throw wire::MalformedError(fmt::format("frame of kind {} after Hello", static_cast<int>(event.header.kind)));
  }
}

bool Session::handle_acknowledgement(uint64_t number) {
  bool in_order;
  bool admitted;
  bool left = false;
  Outbox::Handled handled;
  {
    MutexLock lock(state_);
    const uint64_t before = outbox_.admitted();
    in_order = outbox_.acknowledge(number, handled);
    admitted = outbox_.admitted() != before;
    if (in_order) {
      say_goodbye_if_due();
      left = goodbye_heard();
    }
  }
  if (admitted) room_.notify_all();
  if (!in_order)
    gap(fmt::format("it acknowledges message {}, which cannot be", number));
  else if (left)
    end(GoneReason::left, "we said goodbye");
  return in_order && !left;
}

// L6: compare, handle and count are one step, under order_.
void Session::handle_message(const Channel::Event& event, SessionHandler* handler) {
  if (event.header.number != handled_ + 1)
    return gap(fmt::format("message {} came after message {}", event.header.number, handled_.load()));
  Delivery delivery = inbox_.open(event.header.number, event.payload);
  const auto each_id = [&delivery](auto&& act) {
    wire::ByteReader reader(delivery.head);
    while (reader.remaining() > 0) act(reader.take<uint64_t>());
  };
  switch (delivery.type) {
    case MessageType::goodbye:
      ++handled_;
      // L9: acknowledged, then closed. If the acknowledgement is lost, the leaver dials again and reads Fenced.
      write_last(encode_plain(FrameKind::acknowledgement, 0, handled_));
      end(GoneReason::left, "it said goodbye");
      return;
    case MessageType::free_segments:
      each_id([this](uint64_t id) {
        if (!pool_->take_back(id, place_.loop->now()))
          throw wire::MalformedError(fmt::format("segment {} freed that was not lent", id));
      });
      break;
    case MessageType::retire_segments:
      inbox_.retire_segments(delivery.head);
      break;
    default:
      if (delivery.type < MessageType::first_of_layers_above)
        throw wire::MalformedError(fmt::format("message of unknown type {}", static_cast<int>(delivery.type)));
      // Counted first: an answer that the handler sends then carries the acknowledgement, and the asker's next message
      // finds its link quiet. It is still one step: who stops the link or samples waits for order_.
      ++handled_;
      if (handler != nullptr) try {
          handler->message_arrived(*this, std::move(delivery));
        } catch (const std::exception& error) {
          // It counts as handled, and would never come again: someone would wait for what it was to bring about.
          gap(fmt::format("message {} could not be handled: {}", handled_.load(), error.what()));
        } catch (...) {
          gap(fmt::format("message {} could not be handled: something was thrown that is no std::exception",
                          handled_.load()));
        }
      return;
  }
  ++handled_;
}

void Session::gap(const std::string& what) {
  log_limited(place_.logs->gaps, fmt::format("{} ends its session with {}: {}", mine_.name, peer_->name, what));
  write_last(encode_plain(FrameKind::fenced));
  end(GoneReason::fenced, what);
}

// Bad framing closes the link: bytes may have been hurt on the way, and what was not handled comes again. The same
// number bad twice was made badly, and would come for ever: that ends the session.
void Session::bad_bytes(const std::shared_ptr<Channel>& channel, const std::string& what) {
  if (!owns(channel.get())) return;
  log_limited(place_.logs->malformed, fmt::format("{} got malformed bytes from {}: {}", mine_.name, peer_->name, what));
  give_link_up(channel, "malformed", what);
}

void Session::give_link_up(const std::shared_ptr<Channel>& channel, std::string_view fault, const std::string& what) {
  if (current_ == channel) {
    if (bad_number_ == handled_ + 1) return gap(fmt::format("{} twice: {}", fault, what));
    bad_number_ = handled_ + 1;
  }
  link_lost(channel, fmt::format("{} bytes", fault));
}

// Not the peer's fault, such as no memory for what it sent. What was not handled comes again on the next link: then
// there may be room for it.
void Session::reading_failed(const std::shared_ptr<Channel>& channel, const std::string& what) noexcept {
  try {
    MutexLock lock(order_);
    if (!owns(channel.get())) return;
    LOG(ERROR) << "gradwire: " << mine_.name << " cannot handle what " << peer_->name << " sent: " << what;
    give_link_up(channel, "unusable", what);
  } catch (const std::exception& error) {
    // The link stands still until pings are not answered (L5), and is made anew then.
    channel->link().close();
    LOG(ERROR) << "gradwire: " << mine_.name << " closes its link to " << peer_->name << ": " << error.what();
  }
}

// The last frame on a link that is about to be stopped. Best effort: a peer that misses it asks again, and is told.
void Session::write_last(std::string frame) {
  if (!current_) return;
  MutexLock lock(state_);
  const std::shared_ptr<Link> link = std::exchange(sending_, nullptr);
  while (writing_) lock.wait(written_);
  if (!link) return;
  // Behind what is half written: in the middle of a frame it would be read as a part of that.
  batch_.add(std::move(frame));
  link->write(batch_.buffers(), batch_.descriptors());
}

}  // namespace gradwire::net
