#include "gradwire/net/memory_network.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include <c10/util/Exception.h>

namespace gradwire::net {
namespace {

using Names = std::pair<std::string, std::string>;
Names pair_of(const std::string& first, const std::string& second) {
  return first < second ? Names{first, second} : Names{second, first};
}

class MemoryLink;

}  // namespace

// Everything is guarded by the one mutex; callbacks are posted, never called under it.
struct MemoryNetwork::State : std::enable_shared_from_this<State> {
  explicit State(std::shared_ptr<Loop> the_loop) : loop(std::move(the_loop)) {}
  Duration next_delay() GRADWIRE_REQUIRES(mutex) { return delay ? delay() : Duration(0); }

  const std::shared_ptr<Loop> loop;
  Mutex mutex;
  std::function<Duration()> delay GRADWIRE_GUARDED_BY(mutex);
  size_t capacity GRADWIRE_GUARDED_BY(mutex) = 256 * 1024;
  std::map<Incarnation, std::function<void(std::shared_ptr<Link>)>> listeners GRADWIRE_GUARDED_BY(mutex);
  std::map<Incarnation, std::string> names GRADWIRE_GUARDED_BY(mutex);
  std::set<Names> cuts GRADWIRE_GUARDED_BY(mutex);
  std::vector<std::weak_ptr<MemoryLink>> links GRADWIRE_GUARDED_BY(mutex);
};

namespace {

// One direction of a connection.
struct Pipe {
  std::string readable;            // what the reader may take
  std::deque<std::string> flying;  // what is still under way
  size_t flying_bytes = 0;
  bool ended = false;       // the reader sees the end once it has taken everything
  bool end_flying = false;  // the writer has closed it; the reader is told later
  bool vanishing = false;   // half-open: what is written is lost
  std::optional<size_t> ends_after;
  bool corrupt_next = false;
  std::string replaced, replacement;  // of equal length; empty once done
  std::string opening;                // the first bytes, for a replay
};

class MemoryLink : public Link, public std::enable_shared_from_this<MemoryLink> {
 public:
  MemoryLink(std::shared_ptr<MemoryNetwork::State> network, std::string from, std::string to, bool is_dialler,
             std::shared_ptr<Pipe> out, std::shared_ptr<Pipe> in)
      : network_(std::move(network)),
        from_(std::move(from)),
        to_(std::move(to)),
        is_dialler_(is_dialler),
        out_(std::move(out)),
        in_(std::move(in)) {}

  void pair_with(const std::shared_ptr<MemoryLink>& other) { other_ = other; }

  Transfer write(std::span<const iovec> buffers, std::span<const int>) override {
    MutexLock lock(network_->mutex);
    if (closed_ || out_->ended || out_->end_flying) return {.closed = true};
    std::string bytes;
    const size_t used = out_->readable.size() + out_->flying_bytes;
    const size_t room = network_->capacity > used ? network_->capacity - used : 0;
    for (const iovec& buffer : buffers)
      bytes.append(static_cast<const char*>(buffer.iov_base), std::min(buffer.iov_len, room - bytes.size()));
    if (bytes.empty()) return {};
    const size_t count = bytes.size();
    if (out_->opening.size() < 4096) out_->opening += bytes;
    if (out_->vanishing) return {.bytes = count};
    if (out_->corrupt_next) {
      out_->corrupt_next = false;
      bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x20);
    }
    if (const size_t place = bytes.find(out_->replaced); !out_->replaced.empty() && place != std::string::npos) {
      bytes.replace(place, out_->replaced.size(), out_->replacement);
      out_->replaced.clear();
    }
    if (out_->ends_after) {
      if (bytes.size() >= *out_->ends_after) {
        bytes.resize(*out_->ends_after);
        end_both();
      } else {
        *out_->ends_after -= bytes.size();
      }
    }
    out_->flying_bytes += bytes.size();
    out_->flying.push_back(std::move(bytes));
    later([](MemoryLink& self) GRADWIRE_NO_ANALYSIS { self.land(); });
    return {.bytes = count};
  }

  Transfer read(std::span<const iovec> buffers, std::vector<Descriptor>&) override {
    MutexLock lock(network_->mutex);
    if (closed_) return {.closed = true};
    size_t count = 0;
    for (const iovec& buffer : buffers) {
      const size_t part = std::min(buffer.iov_len, in_->readable.size() - count);
      std::memcpy(buffer.iov_base, in_->readable.data() + count, part);
      count += part;
    }
    in_->readable.erase(0, count);
    if (count > 0)
      if (std::shared_ptr<MemoryLink> other = other_.lock()) other->tell_writable();
    return {.bytes = count, .closed = count == 0 && in_->ended};
  }

  void close() override {
    MutexLock lock(network_->mutex);
    if (closed_) return;
    closed_ = true;
    wants_readable_ = wants_writable_ = false;
    readable_.reset();
    writable_.reset();
    out_->end_flying = true;
    if (!out_->vanishing) later([](MemoryLink& self) GRADWIRE_NO_ANALYSIS { self.land(); });
  }

  void watch(std::function<void()> readable, std::function<void()> writable) override {
    MutexLock lock(network_->mutex);
    readable_ = std::make_shared<std::function<void()>>(std::move(readable));
    writable_ = std::make_shared<std::function<void()>>(std::move(writable));
  }

  void want_readable(bool wanted) override {
    MutexLock lock(network_->mutex);
    if (closed_) return;
    wants_readable_ = wanted;
    tell_readable();
  }

  void want_writable() override {
    MutexLock lock(network_->mutex);
    if (closed_) return;
    wants_writable_ = true;
    if (out_->readable.size() + out_->flying_bytes < network_->capacity) tell_writable();
  }

  int descriptor() const override { return -1; }
  bool passes_descriptors() const override { return false; }
  std::string kind() const override { return "memory"; }

  // The rest is called with the network's mutex held; that both ends share it, clang's analysis cannot know.
  bool joins(const Names& names) const { return pair_of(from_, to_) == names; }
  const std::string& from() const { return from_; }
  bool is_dialler() const { return is_dialler_; }
  bool open() const { return !closed_ && !out_->ended && !in_->ended; }
  Pipe& out() { return *out_; }
  void break_now(bool noticed) {
    // What the other side wrote and has not arrived is lost with the connection.
    in_->flying.clear();
    in_->flying_bytes = 0;
    in_->vanishing = true;
    if (noticed) in_->ended = true;
    tell_readable();
  }
  void end_both() {
    out_->end_flying = true;
    if (std::shared_ptr<MemoryLink> other = other_.lock()) {
      other->out_->end_flying = true;
      other->later([](MemoryLink& self) GRADWIRE_NO_ANALYSIS { self.land(); });
    }
  }
  // What was cut off flies on.
  void resume() {
    later([](MemoryLink& self) GRADWIRE_NO_ANALYSIS { self.land(); });
  }

 private:
  template <class F>
  void later(F act) GRADWIRE_NO_ANALYSIS {
    network_->loop->after(network_->next_delay(), [self = shared_from_this(), act] {
      MutexLock lock(self->network_->mutex);
      act(*self);
    });
  }

  // Lands what this side wrote, in order, at the other.
  void land() GRADWIRE_NO_ANALYSIS {
    if (network_->cuts.contains(pair_of(from_, to_))) return;
    if (!out_->flying.empty()) {
      out_->readable += out_->flying.front();
      out_->flying_bytes -= out_->flying.front().size();
      out_->flying.pop_front();
      // Anything behind it that was held back by a cut.
      if (!out_->flying.empty()) later([](MemoryLink& self) GRADWIRE_NO_ANALYSIS { self.land(); });
    }
    if (out_->end_flying && out_->flying.empty()) out_->ended = true;
    if (std::shared_ptr<MemoryLink> other = other_.lock()) other->tell_readable();
  }

  void tell_readable() GRADWIRE_NO_ANALYSIS {
    if (!wants_readable_ || readable_posted_ || !readable_ || (in_->readable.empty() && !in_->ended)) return;
    readable_posted_ = true;
    network_->loop->post([self = shared_from_this()] {
      std::shared_ptr<std::function<void()>> call;
      {
        MutexLock lock(self->network_->mutex);
        self->readable_posted_ = false;
        if (!self->wants_readable_ || !self->readable_) return;
        call = self->readable_;
      }
      (*call)();
      MutexLock lock(self->network_->mutex);
      self->tell_readable();  // as long as there is something, like poll
    });
  }

  void tell_writable() GRADWIRE_NO_ANALYSIS {
    if (!wants_writable_) return;
    wants_writable_ = false;
    network_->loop->post([self = shared_from_this()] {
      std::shared_ptr<std::function<void()>> call;
      {
        MutexLock lock(self->network_->mutex);
        if (self->closed_) return;
        call = self->writable_;
      }
      (*call)();
    });
  }

  const std::shared_ptr<MemoryNetwork::State> network_;
  const std::string from_;
  const std::string to_;
  const bool is_dialler_;
  const std::shared_ptr<Pipe> out_;
  const std::shared_ptr<Pipe> in_;
  std::weak_ptr<MemoryLink> other_;
  bool closed_ = false;
  bool wants_readable_ = false;
  bool wants_writable_ = false;
  bool readable_posted_ = false;
  std::shared_ptr<std::function<void()>> readable_;
  std::shared_ptr<std::function<void()>> writable_;
};

// A connection from one to the other: the dialler's end and the acceptor's.
std::pair<std::shared_ptr<MemoryLink>, std::shared_ptr<MemoryLink>> connect(
    const std::shared_ptr<MemoryNetwork::State>& network, const std::string& from,
    const std::string& to) GRADWIRE_NO_ANALYSIS {
  auto there = std::make_shared<Pipe>();
  auto back = std::make_shared<Pipe>();
  auto dialler = std::make_shared<MemoryLink>(network, from, to, true, there, back);
  auto acceptor = std::make_shared<MemoryLink>(network, to, from, false, back, there);
  dialler->pair_with(acceptor);
  acceptor->pair_with(dialler);
  std::erase_if(network->links, [](const std::weak_ptr<MemoryLink>& link) { return link.expired(); });
  network->links.push_back(dialler);
  network->links.push_back(acceptor);
  return {dialler, acceptor};
}

class MemoryTransport : public Transport {
 public:
  explicit MemoryTransport(std::shared_ptr<MemoryNetwork::State> network) : network_(std::move(network)) {}
  ~MemoryTransport() override { close(); }

  void listen(Record& mine, std::function<void(std::shared_ptr<Link>)> accepted) override {
    mine.host = "memory";
    MutexLock lock(network_->mutex);
    name_ = mine.name;
    incarnation_ = mine.incarnation;
    network_->listeners[incarnation_] = std::move(accepted);
    network_->names[incarnation_] = name_;
  }

  void dial(const Record& peer, std::function<void(DialResult)> done) override {
    MutexLock lock(network_->mutex);
    // A dial into a cut hangs: whoever dials has a timer.
    if (network_->cuts.contains(pair_of(name_, peer.name))) return;
    network_->loop->after(
        network_->next_delay(), [network = network_, from = name_, mine = incarnation_, peer, done = std::move(done)] {
          std::function<void(std::shared_ptr<Link>)> accepted;
          std::pair<std::shared_ptr<MemoryLink>, std::shared_ptr<MemoryLink>> ends;
          {
            MutexLock inner(network->mutex);
            // At one address lives one worker of that name at a time: a restarted one answers there, but not itself.
            auto found = network->listeners.find(peer.incarnation);
            if (found == network->listeners.end())
              found = std::find_if(network->listeners.begin(), network->listeners.end(),
                                   [&](const auto& listener) GRADWIRE_NO_ANALYSIS {
                                     return listener.first != mine && network->names[listener.first] == peer.name;
                                   });
            if (found != network->listeners.end()) {
              accepted = found->second;
              ends = connect(network, from, peer.name);
            }
          }
          if (!accepted) return done({.outcome = DialOutcome::refused, .why = "no one listens there"});
          network->loop->post([accepted, link = ends.second] { accepted(link); });
          done({.outcome = DialOutcome::connected, .link = ends.first});
        });
  }

  void close() override {
    MutexLock lock(network_->mutex);
    network_->listeners.erase(incarnation_);
  }

 private:
  const std::shared_ptr<MemoryNetwork::State> network_;
  std::string name_;
  Incarnation incarnation_ = Incarnation::none;
};

// Calls `act` for each open end of a connection between the two.
template <class F>
void for_each_link(MemoryNetwork::State& network, const std::string& first, const std::string& second,
                   F act) GRADWIRE_NO_ANALYSIS {
  for (const std::weak_ptr<MemoryLink>& weak : network.links)
    if (std::shared_ptr<MemoryLink> link = weak.lock(); link && link->joins(pair_of(first, second)) && link->open())
      act(link);
}

}  // namespace

MemoryNetwork::MemoryNetwork(std::shared_ptr<Loop> loop) : state_(std::make_shared<State>(std::move(loop))) {}

std::shared_ptr<Transport> MemoryNetwork::transport() { return std::make_shared<MemoryTransport>(state_); }

void MemoryNetwork::set_delay(std::function<Duration()> delay) {
  MutexLock lock(state_->mutex);
  state_->delay = std::move(delay);
}

void MemoryNetwork::set_capacity(size_t bytes) {
  MutexLock lock(state_->mutex);
  state_->capacity = bytes;
}

void MemoryNetwork::cut(const std::string& first, const std::string& second) {
  MutexLock lock(state_->mutex);
  state_->cuts.insert(pair_of(first, second));
}

void MemoryNetwork::heal(const std::string& first, const std::string& second) {
  MutexLock lock(state_->mutex);
  state_->cuts.erase(pair_of(first, second));
  for (const std::weak_ptr<MemoryLink>& weak : state_->links)
    if (std::shared_ptr<MemoryLink> link = weak.lock(); link && link->joins(pair_of(first, second))) link->resume();
}

void MemoryNetwork::break_links(const std::string& first, const std::string& second, Noticed noticed) {
  MutexLock lock(state_->mutex);
  for_each_link(*state_, first, second, [&](const std::shared_ptr<MemoryLink>& link) {
    const bool is_first = link->from() == first;
    link->break_now(noticed == Noticed::by_both || noticed == (is_first ? Noticed::by_first : Noticed::by_second));
  });
}

void MemoryNetwork::truncate(const std::string& first, const std::string& second, size_t bytes) {
  MutexLock lock(state_->mutex);
  for_each_link(*state_, first, second, [&](const std::shared_ptr<MemoryLink>& link) {
    if (link->from() == first) link->out().ends_after = bytes;
  });
}

void MemoryNetwork::corrupt(const std::string& first, const std::string& second) {
  MutexLock lock(state_->mutex);
  for_each_link(*state_, first, second, [&](const std::shared_ptr<MemoryLink>& link) {
    if (link->from() == first) link->out().corrupt_next = true;
  });
}

void MemoryNetwork::replace(const std::string& first, const std::string& second, const std::string& bytes,
                            const std::string& with) {
  TORCH_INTERNAL_ASSERT(bytes.size() == with.size());
  MutexLock lock(state_->mutex);
  for_each_link(*state_, first, second, [&](const std::shared_ptr<MemoryLink>& link) {
    if (link->from() != first) return;
    link->out().replaced = bytes;
    link->out().replacement = with;
  });
}

void MemoryNetwork::replay(const std::string& first, const std::string& second) {
  std::function<void(std::shared_ptr<Link>)> accepted;
  std::shared_ptr<MemoryLink> dialler, acceptor;
  std::string opening;
  {
    MutexLock lock(state_->mutex);
    for (const std::weak_ptr<MemoryLink>& weak : state_->links)
      if (std::shared_ptr<MemoryLink> link = weak.lock(); link && link->is_dialler() && link->from() == first &&
                                                          link->joins(pair_of(first, second)) &&
                                                          !link->out().opening.empty())
        opening = link->out().opening;
    for (const auto& [incarnation, listener] : state_->listeners)
      if (state_->names[incarnation] == second) accepted = listener;
    if (opening.empty() || !accepted) return;
    std::tie(dialler, acceptor) = connect(state_, first, second);
  }
  state_->loop->post([accepted, link = acceptor] { accepted(link); });
  const iovec buffer{opening.data(), opening.size()};
  dialler->write({&buffer, 1}, {});
  // It stays open until its other end closes it: a stale connection does not go away by itself.
  state_->loop->after(std::chrono::seconds(60), [dialler] { dialler->close(); });
}

}  // namespace gradwire::net
