#include "gradwire/net/greeter.h"

#include <algorithm>

#include <c10/util/Logging.h>

#include "gradwire/net/descriptor_limit.h"
#include "gradwire/net/say_and_close.h"

namespace gradwire::net {

Greeter::Greeter(Place place)
    : place_(std::move(place)),
      most_(std::clamp<size_t>(shared_descriptors(), 1, most_waiting)),
      random_(std::random_device{}()) {}

Greeter::~Greeter() {
  for (const Pointer& greeting : greetings_) greeting->channel->link().close();
}

void Greeter::accept(std::shared_ptr<Link> link) {
  if (greetings_.size() >= most_) {
    const size_t which = std::uniform_int_distribution<size_t>(0, greetings_.size() - 1)(random_);
    end(Pointer(greetings_[which]));
    if (const auto more = dropped_.admit(place_.loop->now()))
      LOG(WARNING) << "gradwire: " << place_.name << " dropped a connection at random: more than " << most_
                   << " have not said who they are" << *more;
  }
  auto greeting = std::make_shared<Greeting>();
  greeting->channel = std::make_shared<Channel>(std::move(link), largest_fixed_part);
  greeting->deadline = place_.loop->now() + place_.limit;
  greetings_.push_back(greeting);
  greeting->channel->link().watch(
      [weak = weak_from_this(), waiting = std::weak_ptr(greeting)] {
        const std::shared_ptr<Greeter> self = weak.lock();
        const Pointer readable = waiting.lock();
        if (self && readable) self->read(readable);
      },
      [] {});
  greeting->channel->link().want_readable(true);
  if (sweeping_) return;
  place_.loop->after(place_.limit, [weak = weak_from_this()] {
    if (const std::shared_ptr<Greeter> self = weak.lock()) self->sweep();
  });
  sweeping_ = true;
}

void Greeter::close() {
  while (!greetings_.empty()) end(Pointer(greetings_.back()));
}

size_t Greeter::bytes() const {
  size_t sum = 0;
  for (const Pointer& greeting : greetings_) sum += greeting->channel->capacity();
  return sum;
}

void Greeter::read(const Pointer& greeting) {
  if (greeting->over) return;
  Channel& channel = *greeting->channel;
  try {
    const Transfer transfer = channel.fill();
    // They come behind Hello, in front of the messages that use them.
    if (!channel.descriptors().empty() || transfer.descriptors_lost)
      throw wire::MalformedError("descriptors in front of Hello");
    if (greeting->judged || judge(greeting)) {
      const Channel::Event event = channel.next();
      if (event.kind == Channel::EventKind::frame) {
        Hello hello = decode_hello(event.payload);
        const std::shared_ptr<Channel> known = greeting->channel;
        known->link().want_readable(false);
        known->set_largest_payload(largest_frame_payload);
        greeting->channel.reset();
        end(greeting);
        // In a turn of its own: the session sets its own callbacks on the link, and this is one of the old.
        place_.loop->post([weak = weak_from_this(), known, hello = std::move(hello)] {
          if (const std::shared_ptr<Greeter> self = weak.lock())
            self->place_.welcome(known, hello);
          else
            known->link().close();
        });
        return;
      }
    }
    if (transfer.closed) end(greeting);
  } catch (const std::exception& error) {
    // Malformed, or memory is short.
    if (const auto more = malformed_.admit(place_.loop->now()))
      LOG(WARNING) << "gradwire: " << place_.name << " closes a connection: " << error.what() << *more;
    end(greeting);
  }
}

bool Greeter::judge(const Pointer& greeting) {
  const std::string_view unread = greeting->channel->unread();
  if (unread.size() < frame_header_size) return false;
  const FrameHeader header = decode_frame_header(unread.substr(0, frame_header_size));
  if (header.kind != FrameKind::hello) throw wire::MalformedError("connection that does not begin with Hello");
  const std::string_view payload = unread.substr(frame_header_size, header.payload_size);
  const std::optional<FixedPart> part = decode_fixed_part(payload);
  if (!part) {
    if (payload.size() == header.payload_size) throw wire::MalformedError("Hello ends in its fixed part");
    return false;
  }
  const size_t list_bytes = header.payload_size - part->size;
  if (std::optional<std::string> frame = place_.refusal(part->hello, list_bytes)) {
    answer(greeting, *std::move(frame));
    return false;
  }
  // Whoever finds no room comes again.
  if (list_bytes_ > 0 && list_bytes_ + list_bytes > most_list_bytes)
    throw wire::MalformedError("too many lists of Hello are being read already");
  greeting->judged = true;
  greeting->list_bytes = list_bytes;
  list_bytes_ += list_bytes;
  greeting->channel->set_largest_payload(header.payload_size);
  return true;
}

void Greeter::answer(const Pointer& greeting, std::string frame) {
  if (!frame.empty()) say_and_close(greeting->channel->link(), frame);
  end(greeting);
}

void Greeter::end(const Pointer& greeting) {
  if (std::exchange(greeting->over, true)) return;
  list_bytes_ -= greeting->list_bytes;
  if (greeting->channel) greeting->channel->link().close();
  std::erase(greetings_, greeting);
}

// L4: connections without Hello after the timer are closed.
void Greeter::sweep() {
  const Time now = place_.loop->now();
  Time next = Time::max();
  for (const Pointer& greeting : std::vector(greetings_)) {
    if (greeting->deadline <= now)
      end(greeting);
    else
      next = std::min(next, greeting->deadline);
  }
  sweeping_ = !greetings_.empty();
  if (!sweeping_) return;
  place_.loop->after(next - now, [weak = weak_from_this()] {
    if (const std::shared_ptr<Greeter> self = weak.lock()) self->sweep();
  });
}

}  // namespace gradwire::net
