#include "gradwire/net/endpoint.h"

#include <algorithm>
#include <atomic>

#include <c10/util/Logging.h>
#include <fmt/format.h>

namespace gradwire::net {

struct Endpoint::Greeting {
  explicit Greeting(std::shared_ptr<Link> link) : channel(std::make_shared<Channel>(std::move(link))) {}
  std::shared_ptr<Channel> channel;
  bool over = false;

  void answer(std::string frame) {
    const iovec buffer{frame.data(), frame.size()};
    channel->link().write({&buffer, 1}, {});
    close();
  }
  void close() {
    over = true;
    channel->link().close();
  }
};

struct Endpoint::Farewell : std::enable_shared_from_this<Farewell> {
  Farewell(Time until, std::function<void()> then) : deadline(until), left(std::move(then)) {}
  const Time deadline;  // for latecomers too: they do not put the end off
  const std::function<void()> left;
  std::atomic<size_t> unheard = 1;  // whoever calls `leave` has one of them until all were told

  void say_to(Session& session, Time now) {
    // Whoever comes when all others have heard it is told as well, but not waited for.
    size_t count = unheard;
    while (count != 0 && !unheard.compare_exchange_weak(count, count + 1)) {
    }
    session.leave(std::max(deadline - now, Duration(0)), [self = shared_from_this(), waited_for = count != 0] {
      if (waited_for) self->heard();
    });
  }
  void heard() {
    if (unheard.fetch_sub(1) == 1) left();
  }
};

std::shared_ptr<Endpoint> Endpoint::open(SessionPlace place, Record identity, SessionOptions options) {
  if (!place.blocks) place.blocks = std::make_shared<Blocks>(place.loop, place.budget);
  std::shared_ptr<Endpoint> endpoint(new Endpoint(std::move(place), std::move(identity), options));
  endpoint->place_.transport->listen(endpoint->record_,
                                     [weak = endpoint->weak_from_this()](std::shared_ptr<Link> link) {
                                       if (std::shared_ptr<Endpoint> self = weak.lock())
                                         self->accepted(std::move(link));
                                       else
                                         link->close();
                                     });
  return endpoint;
}

Endpoint::~Endpoint() { close(); }

void Endpoint::accepted(std::shared_ptr<Link> link) {
  auto greeting = std::make_shared<Greeting>(std::move(link));
  greetings_.insert(greeting);
  greeting->channel->link().watch(
      [weak = weak_from_this(), waiting = std::weak_ptr(greeting)] {
        std::shared_ptr<Endpoint> self = weak.lock();
        std::shared_ptr<Greeting> heard = waiting.lock();
        if (self && heard) self->greet(heard);
      },
      [] {});
  greeting->channel->link().want_readable(true);
  place_.loop->after(options_.peer_timeout / 8, [weak = weak_from_this(), waiting = std::weak_ptr(greeting)] {
    std::shared_ptr<Endpoint> self = weak.lock();
    std::shared_ptr<Greeting> late = waiting.lock();
    if (!self || !late || late->over) return;
    late->close();  // L4
    self->greetings_.erase(late);
  });
}

void Endpoint::greet(const std::shared_ptr<Greeting>& greeting) {
  if (greeting->over) return;
  const Transfer transfer = greeting->channel->fill();
  try {
    const Channel::Event event = greeting->channel->next();
    if (event.kind == Channel::EventKind::frame) {
      if (event.header.kind != FrameKind::hello)
        throw wire::MalformedError("connection that does not begin with Hello");
      greeting->over = true;
      greetings_.erase(greeting);
      greeting->channel->link().want_readable(false);
      // In a turn of its own: the session sets its own callbacks on the link, and this is one of the old.
      place_.loop->post([weak = weak_from_this(), greeting, hello = decode_hello(event.payload)] {
        if (std::shared_ptr<Endpoint> self = weak.lock())
          self->introduce(greeting, hello);
        else
          greeting->close();
      });
      return;
    }
  } catch (const wire::MalformedError& error) {
    LOG(WARNING) << "gradwire: " << record_.name << " closes a connection: " << error.what();
    greeting->close();
  }
  if (transfer.closed) greeting->close();
  if (greeting->over) greetings_.erase(greeting);
}

// L3, as far as it does not need the session's lock.
void Endpoint::introduce(const std::shared_ptr<Greeting>& greeting, const Hello& hello) {
  if (hello.version != protocol_version) {
    const std::string why =
        fmt::format("{} speaks version {} of the protocol, the caller version {}: use one release on both",
                    record_.name, protocol_version, hello.version);
    std::string frame;
    encode(frame, {.payload_size = static_cast<uint32_t>(why.size()), .kind = FrameKind::incompatible});
    LOG(WARNING) << "gradwire: " << why;
    return greeting->answer(frame + why);
  }
  if (hello.mine.incarnation == record_.incarnation) return greeting->close();
  if (hello.yours != record_.incarnation)
    return greeting->answer(encode_plain(FrameKind::not_me, static_cast<uint64_t>(record_.incarnation)));
  std::shared_ptr<Session> session;
  std::shared_ptr<Farewell> farewell;
  {
    MutexLock lock(mutex_);
    if (closed_) return greeting->close();
    std::shared_ptr<Session>& entry = sessions_[hello.mine.incarnation];
    if (!entry) {
      entry = Session::make(place_, record_, hello.mine, options_);
      farewell = farewell_;
    }
    session = entry;
  }
  session->accept(greeting->channel, hello);
  if (farewell) farewell->say_to(*session, place_.loop->now());
}

std::shared_ptr<Session> Endpoint::session(const Record& peer) {
  if (peer.incarnation == record_.incarnation)
    throw InvalidArgumentError(fmt::format("{} has no session with itself", record_.name), record_.name);
  std::shared_ptr<Session> session;
  bool fresh = false;
  {
    MutexLock lock(mutex_);
    // Not by way of an ended session: to end one takes its lock, which a handler that sends may have.
    if (closed_ || (farewell_ && !sessions_.contains(peer.incarnation)))
      throw PeerGoneError(fmt::format("{} is gone (left): this worker has left", to_string(peer)), peer.name,
                          GoneReason::left);
    std::shared_ptr<Session>& entry = sessions_[peer.incarnation];
    fresh = !entry;
    if (fresh) entry = Session::make(place_, record_, peer, options_);
    session = entry;
  }
  if (fresh) session->dial();
  return session;
}

std::shared_ptr<Session> Endpoint::find(Incarnation peer) {
  MutexLock lock(mutex_);
  auto found = sessions_.find(peer);
  return found == sessions_.end() || found->second->ended() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Session>> Endpoint::sessions() {
  MutexLock lock(mutex_);
  return living();
}

std::vector<std::shared_ptr<Session>> Endpoint::living() const {
  std::vector<std::shared_ptr<Session>> all;
  for (const auto& [incarnation, session] : sessions_)
    if (!session->ended()) all.push_back(session);
  return all;
}

void Endpoint::leave(Duration limit, std::function<void()> left) {
  const Time now = place_.loop->now();
  const auto farewell = std::make_shared<Farewell>(now + limit, std::move(left));
  std::vector<std::shared_ptr<Session>> all;
  {
    MutexLock lock(mutex_);
    farewell_ = farewell;
    all = living();
  }
  for (const std::shared_ptr<Session>& session : all) farewell->say_to(*session, now);
  place_.loop->post([farewell] { farewell->heard(); });
}

void Endpoint::close() {
  std::unordered_map<Incarnation, std::shared_ptr<Session>> sessions;
  {
    MutexLock lock(mutex_);
    if (std::exchange(closed_, true)) return;
    sessions = sessions_;
  }
  place_.transport->close();
  for (auto& [incarnation, session] : sessions) session->end_now(GoneReason::left, "this worker has left");
}

}  // namespace gradwire::net
