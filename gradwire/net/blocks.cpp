#include "gradwire/net/blocks.h"

#include <c10/core/CPUAllocator.h>

#include "gradwire/net/fork.h"

namespace gradwire::net {
namespace {

// Below this malloc keeps pages by itself.
constexpr size_t smallest_kept = size_t{256} * 1024;
constexpr Duration idle_time = std::chrono::seconds(10);

}  // namespace

c10::DataPtr Blocks::take(size_t size) { return take(size, Residence::at_once).memory; }

Blocks::Announced Blocks::take_announced(size_t size) { return take(size, Residence::as_bytes_come); }

Blocks::Announced Blocks::take(size_t size, Residence residence) {
  const std::shared_ptr<Segment> segment = size >= smallest_kept ? pool_.lend(size, residence) : nullptr;
  if (!segment) return {c10::GetCPUAllocator()->allocate(size), nullptr};
  struct Kept {
    std::shared_ptr<Segment> segment;
    std::shared_ptr<Blocks> blocks;
  };
  return {{segment->data(), new Kept{segment, shared_from_this()},
           [](void* context) {
             const std::unique_ptr<Kept> kept(static_cast<Kept*>(context));
             kept->blocks->give_back(kept->segment->id());
           },
           c10::Device(c10::DeviceType::CPU)},
          segment};
}

void Blocks::give_back(uint64_t id) {
  if (forked_child()) return;  // another thread may have had a lock when this process was forked
  pool_.take_back(id, loop_->now());
  if (!trimming_.exchange(true)) trim_later();
}

void Blocks::trim_later() {
  loop_->after(idle_time, [weak = weak_from_this()] {
    const std::shared_ptr<Blocks> self = weak.lock();
    if (!self) return;
    self->pool_.retire_idle(self->loop_->now() - idle_time);
    self->trimming_ = false;
    if (self->pool_.bytes() > 0 && !self->trimming_.exchange(true)) self->trim_later();
  });
}

}  // namespace gradwire::net
