#include "gradwire/rpc/peer_events.h"

#include <utility>

#include <c10/util/Logging.h>

namespace gradwire {

std::string_view name_of(PeerEvent::Kind kind) {
  switch (kind) {
    case PeerEvent::Kind::joined:
      return "joined";
    case PeerEvent::Kind::left:
      return "left";
    case PeerEvent::Kind::died:
      return "died";
    case PeerEvent::Kind::fenced:
      return "fenced";
  }
  return "unknown";
}

bool PeerEvents::watch(Callback callback) {
  MutexLock lock(mutex_);
  callbacks_.push_back(std::move(callback));
  return callbacks_.size() == 1;
}

bool PeerEvents::watched() {
  MutexLock lock(mutex_);
  return !callbacks_.empty();
}

void PeerEvents::report(const std::vector<PeerEvent>& events) {
  {
    MutexLock lock(mutex_);
    if (callbacks_.empty() || events.empty()) return;
    waiting_.insert(waiting_.end(), events.begin(), events.end());
    if (std::exchange(delivering_, true)) return;
  }
  runtime_->submit([self = shared_from_this()] { self->deliver(); });
}

void PeerEvents::stop() {
  const net::Threads::Blocked blocked;
  MutexLock lock(mutex_);
  ++stops_;
  callbacks_.clear();
  waiting_.clear();
  while (delivering_ && deliverer_ != std::this_thread::get_id()) lock.wait(delivered_);
}

bool PeerEvents::stopped_since(uint64_t stops) {
  MutexLock lock(mutex_);
  return stops_ != stops;
}

void PeerEvents::deliver() {
  for (;;) {
    PeerEvent event;
    std::vector<Callback> callbacks;
    uint64_t stops;
    {
      MutexLock lock(mutex_);
      if (waiting_.empty()) {
        delivering_ = false;
        deliverer_ = {};
        delivered_.notify_all();
        return;
      }
      deliverer_ = std::this_thread::get_id();
      event = std::move(waiting_.front());
      waiting_.pop_front();
      callbacks = callbacks_;
      stops = stops_;
    }
    for (const Callback& callback : callbacks) {
      // A callback may destroy the worker, and whatever the callbacks after it use.
      if (stopped_since(stops)) break;
      try {
        callback(event);
      } catch (const std::exception& error) {
        LOG(ERROR) << "gradwire: a callback of on_peer_event threw on \"" << event.name << " " << name_of(event.kind)
                   << "\": " << error.what();
      } catch (...) {
        LOG(ERROR) << "gradwire: a callback of on_peer_event threw on \"" << event.name << " " << name_of(event.kind)
                   << "\" something that is not a std::exception";
      }
    }
  }
}

}  // namespace gradwire
