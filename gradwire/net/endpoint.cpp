#include "gradwire/net/endpoint.h"

#include <algorithm>
#include <atomic>

#include <c10/util/Logging.h>
#include <fmt/format.h>

#include "gradwire/net/say_and_close.h"

namespace gradwire::net {

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
  if (!place.arrivals) place.arrivals = ArrivalBudget::of_process();
  if (!place.logs) place.logs = std::make_shared<SessionLogs>();
  std::shared_ptr<Endpoint> endpoint(new Endpoint(std::move(place), std::move(identity), options));
  const std::weak_ptr<Endpoint> weak = endpoint;
  endpoint->place_.forget = [weak](const Record& peer, const PeerGoneError& error) {
    if (const std::shared_ptr<Endpoint> self = weak.lock()) self->forget(peer, error);
  };
  endpoint->greeter_ = std::make_shared<Greeter>(Greeter::Place{
      .loop = endpoint->place_.loop,
      .name = endpoint->record_.name,
      .limit = options.peer_timeout / 8,
      .refusal = [weak](const Hello& fixed_part, size_t list_bytes) -> std::optional<std::string> {
        const std::shared_ptr<Endpoint> self = weak.lock();
        return self ? self->refusal(fixed_part, list_bytes) : "";
      },
      .welcome =
          [weak](const std::shared_ptr<Channel>& channel, const Hello& hello) {
            if (const std::shared_ptr<Endpoint> self = weak.lock())
              self->introduce(channel, hello);
            else
              channel->link().close();
          },
  });
  endpoint->place_.transport->listen(endpoint->record_,
                                     [greeter = std::weak_ptr(endpoint->greeter_)](std::shared_ptr<Link> link) {
                                       if (const std::shared_ptr<Greeter> self = greeter.lock())
                                         self->accept(std::move(link));
                                       else
                                         link->close();
                                     });
  return endpoint;
}

Endpoint::~Endpoint() { close(); }

std::optional<std::string> Endpoint::refusal(const Hello& fixed_part, size_t list_bytes) {
  if (fixed_part.version != protocol_version) {
    // The caller may be anybody: it learns no name and no incarnation.
    const std::string why = fmt::format(
        "this worker speaks version {} of the protocol, the caller version {}: use one "
        "release on both",
        protocol_version, fixed_part.version);
    if (const auto more = other_versions_.admit(place_.loop->now()))
      LOG(WARNING) << "gradwire: " << record_.name << " closes a connection: " << why << *more;
    std::string frame;
    encode(frame, {.payload_size = static_cast<uint32_t>(why.size()), .kind = FrameKind::incompatible});
    return frame + why;
  }
  // First: a worker may reach itself where its earlier life was.
  if (fixed_part.yours != record_.incarnation) return encode_plain(FrameKind::not_me);
  if (fixed_part.mine.incarnation == record_.incarnation) return "";
  std::shared_ptr<Session> session;
  {
    MutexLock lock(mutex_);
    if (closed_) return "";
    if (ended_.contains(fixed_part.mine.incarnation)) return encode_plain(FrameKind::fenced);
    if (const auto found = sessions_.find(fixed_part.mine.incarnation); found != sessions_.end())
      session = found->second;
  }
  return session ? session->refusal(fixed_part, list_bytes) : Session::refusal_of_first(fixed_part, list_bytes);
}

void Endpoint::introduce(const std::shared_ptr<Channel>& channel, const Hello& hello) {
  std::shared_ptr<Session> session;
  std::shared_ptr<Farewell> farewell;
  {
    MutexLock lock(mutex_);
    if (closed_) return channel->link().close();
    if (ended_.contains(hello.mine.incarnation)) return say_and_close(channel->link(), encode_plain(FrameKind::fenced));
    if (const auto found = sessions_.find(hello.mine.incarnation); found != sessions_.end()) {
      session = found->second;
    } else {
      // Made first: if there is no memory for it, no empty entry stays.
      session = Session::make(place_, record_, hello.mine, options_);
      sessions_.emplace(hello.mine.incarnation, session);
      farewell = farewell_;
    }
  }
  session->accept(channel, hello);
  if (farewell) farewell->say_to(*session, place_.loop->now());
}

void Endpoint::forget(const Record& peer, const PeerGoneError& error) {
  MutexLock lock(mutex_);
  const auto found = sessions_.find(peer.incarnation);
  if (found == sessions_.end()) return;
  ended_.emplace(peer.incarnation, Ended{error.reason(), error.what()});
  // Its lock is held by the thread that ends it: it must not be destroyed here.
  place_.loop->post([ended = found->second] {});
  sessions_.erase(found);
}

std::shared_ptr<Session> Endpoint::session(const Record& peer) {
  if (peer.incarnation == record_.incarnation)
    throw InvalidArgumentError(fmt::format("{} has no session with itself", record_.name), record_.name);
  std::shared_ptr<Session> session;
  bool fresh = false;
  {
    MutexLock lock(mutex_);
    if (const auto ended = ended_.find(peer.incarnation); !closed_ && ended != ended_.end())
      throw PeerGoneError(ended->second.text, peer.name, ended->second.reason);
    // Not by way of an ended session: to end one takes its lock, which a handler that sends may have.
    if (closed_ || (farewell_ && !sessions_.contains(peer.incarnation)))
      throw PeerGoneError(fmt::format("{} is gone (left): this worker has left", to_string(peer)), peer.name,
                          GoneReason::left);
    const auto found = sessions_.find(peer.incarnation);
    fresh = found == sessions_.end();
    session = fresh ? Session::make(place_, record_, peer, options_) : found->second;
    if (fresh) sessions_.emplace(peer.incarnation, session);
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
  place_.loop->post([greeter = greeter_] { greeter->close(); });
  for (auto& [incarnation, session] : sessions) session->end_now(GoneReason::left, "this worker has left");
}

}  // namespace gradwire::net
