#include "gradwire/rpc/calls.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>

namespace gradwire {
namespace {

constexpr auto request_type = net::MessageType{16};
constexpr auto reply_type = net::MessageType{17};

}  // namespace

std::shared_ptr<CallState> Calls::start(const net::Record& peer, std::string_view function, wire::Payload arguments) {
  std::shared_ptr<net::Session> session = endpoint_->session(peer);
  auto state = std::make_shared<CallState>(session);
  const uint64_t call = next_call_++;
  {
    MutexLock lock(mutex_);
    pending_.emplace(call, Pending{state, peer.incarnation, std::string(function)});
  }
  wire::ByteWriter head;
  head.put(call);
  head.put_string(function);
  try {
    session->wait_for_room(session->send({.type = request_type, .head = head.take(), .payload = std::move(arguments)},
                                         net::Admission::waits_for_room),
                           net::Time::max());
  } catch (...) {
    MutexLock lock(mutex_);
    pending_.erase(call);
    throw;
  }
  return state;
}

void Calls::message_arrived(net::Session& session, net::Delivery delivery) noexcept {
  try {
    wire::ByteReader head(delivery.head);
    const auto call = head.take<uint64_t>();
    if (delivery.type == request_type) {
      Request request{session.shared_from_this(), call, std::string(head.take_string()), delivery.arrival,
                      delivery.refusal};
      if (!delivery.arrival || delivery.arrival->settled()) {
        MutexLock lock(mutex_);
        requests_.push_back(std::move(request));
      } else {
        delivery.arrival->when_settled([self = shared_from_this(), request = std::move(request)]() mutable {
          {
            MutexLock lock(self->mutex_);
            self->requests_.push_back(std::move(request));
          }
          self->runtime_->post([self] { self->serve_all(); });
        });
      }
    } else if (delivery.type == reply_type) {
      const bool failed = head.take<bool>();
      if (!delivery.arrival) throw wire::MalformedError(delivery.refusal);
      delivery.arrival->when_settled([self = shared_from_this(), call, failed, arrival = delivery.arrival,
                                      worker = session.peer().name] { self->finish(call, failed, arrival, worker); });
    }
  } catch (const std::exception& error) {
    LOG(WARNING) << "gradwire: " << name_ << " cannot use a message of " << session.peer().name << ": " << error.what();
  }
}

void Calls::finish(uint64_t call, bool failed, const std::shared_ptr<net::Arrival>& arrival,
                   const std::string& worker) {
  std::shared_ptr<CallState> state;
  {
    MutexLock lock(mutex_);
    auto found = pending_.find(call);
    if (found == pending_.end()) return;
    state = std::move(found->second.state);
    pending_.erase(found);
  }
  try {
    wire::Payload result = arrival->take();
    if (failed)
      state->fail(std::make_exception_ptr(RemoteError(result.bytes, worker)));
    else
      state->complete(std::move(result));
  } catch (...) {
    state->fail(std::current_exception());
  }
}

void Calls::peer_gone(net::Session& session, GoneReason reason, const std::string& why) noexcept {
  std::vector<Pending> failed;
  {
    MutexLock lock(mutex_);
    for (auto at = pending_.begin(); at != pending_.end();) {
      if (at->second.peer == session.peer().incarnation) {
        failed.push_back(std::move(at->second));
        at = pending_.erase(at);
      } else {
        ++at;
      }
    }
  }
  for (Pending& call : failed)
    call.state->fail(std::make_exception_ptr(
        PeerGoneError(fmt::format("{} is gone ({}) before it answered the call of \"{}\": {}",
                                  to_string(session.peer()), name_of(reason), call.function, why),
                      session.peer().name, reason)));
}

void Calls::batch_handled(net::Session&) noexcept {
  // A user's thread that waits in `get` never runs functions: its locks and guards are on its stack.
  if (runtime_->on_loop_thread()) return serve_all();
  MutexLock lock(mutex_);
  if (!requests_.empty()) runtime_->post([self = shared_from_this()] { self->serve_all(); });
}

void Calls::serve_all() noexcept {
  for (;;) {
    Request request;
    {
      MutexLock lock(mutex_);
      if (requests_.empty()) return;
      request = std::move(requests_.front());
      requests_.pop_front();
    }
    serve(request);
  }
}

void Calls::serve(Request& request) noexcept {
  wire::ByteWriter head;
  head.put(request.call);
  net::Message reply{.type = reply_type};
  bool failed = false;
  try {
    if (!request.arrival) throw OverloadedError(request.refusal);
    reply.payload = registry_.find(request.function)(request.arrival->take());
  } catch (const std::exception& error) {
    failed = true;
    reply.payload = {.bytes = fmt::format("\"{}\" failed at {}: {}", request.function, name_, error.what())};
  }
  head.put(failed);
  reply.head = head.take();
  try {
    request.session->send(std::move(reply), net::Admission::always);
  } catch (const Error& error) {
    LOG(INFO) << "gradwire: " << name_ << " has no one to reply to: " << error.what();
  }
}

}  // namespace gradwire
