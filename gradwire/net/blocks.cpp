#include "gradwire/net/blocks.h"

#include <c10/core/CPUAllocator.h>

#include "gradwire/net/fork.h"

namespace gradwire::net {
namespace {

// Below this malloc keeps pages by itself.
constexpr size_t smallest_kept = size_t{256} * 1024;
constexpr Duration idle_time = std::chrono::seconds(10);

}  // namespace

c10::DataPtr Blocks::take(size_t size) {
  std::shared_ptr<Segment> segment = size >= smallest_kept ? pool_.lend(size) : nullptr;
  if (!segment) return c10::GetCPUAllocator()->allocate(size);
  struct Kept {
    std::shared_ptr<Segment> segment;
    std::shared_ptr<Blocks> blocks;
  };
  char* data = segment->data();
  return {data, new Kept{std::move(segment), shared_from_this()},
          [](void* context) {
            const std::unique_ptr<Kept> kept(static_cast<Kept*>(context));
            kept->blocks->give_back(kept->segment->id());
          },
          c10::Device(c10::DeviceType::CPU)};
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
