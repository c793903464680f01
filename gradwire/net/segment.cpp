#include "gradwire/net/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace gradwire::net {
namespace {

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Much in one step, so that steps are few; little enough that nobody waits for long behind one.
constexpr size_t largest_step = size_t{4} << 20U;
// MADV_POPULATE_WRITE, which older headers do not have.
constexpr int populate_write = 23;

char* map(int file, size_t size, Residence residence) {
  const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  const int populate = residence == Residence::at_once ? MAP_POPULATE : 0;
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, kind | populate, file, 0);
  return data == MAP_FAILED ? nullptr : static_cast<char*>(data);
}

// Whether there is memory behind all of it already.
bool has_no_holes(const struct stat& status) {
  constexpr size_t block = 512;
  return static_cast<size_t>(status.st_blocks) * block >= static_cast<size_t>(status.st_size);
}

}  // namespace

std::shared_ptr<Segment> Segment::make(uint64_t id, size_t size, Sharing sharing, Residence residence) {
  Descriptor file;
  if (sharing == Sharing::with_peer) {
    file = Descriptor(memfd_create("gradwire", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file || ftruncate(file.get(), static_cast<off_t>(size)) != 0) return nullptr;
    if (fcntl(file.get(), F_ADD_SEALS, seals) != 0) return nullptr;
  }
  char* data = map(file.get(), size, residence);
  if (data == nullptr) return nullptr;
  return std::shared_ptr<Segment>(
      new Segment(id, size, std::move(file), data, residence == Residence::at_once ? size : 0));
}

std::shared_ptr<Segment> Segment::open(uint64_t id, size_t size, Descriptor file, std::string& why) {
  struct stat status{};
  const int found = fcntl(file.get(), F_GET_SEALS);
  if (found < 0 || (found & F_SEAL_SHRINK) == 0) {
    why = "its file is not a memfd sealed against shrinking";
  } else if (fstat(file.get(), &status) != 0 || static_cast<size_t>(status.st_size) != size || size == 0) {
    why = fmt::format("its file has {} bytes, {} were announced", status.st_size, size);
  } else if (char* data = map(file.get(), size, has_no_holes(status) ? Residence::at_once : Residence::as_bytes_come);
             data == nullptr) {
    why = fmt::format("it cannot be mapped: {}", std::strerror(errno));
  } else {
    return std::shared_ptr<Segment>(new Segment(id, size, Descriptor(), data, size));
  }
  return nullptr;
}

Segment::~Segment() { munmap(data_, size_); }

void Segment::populate_behind(size_t written) {
  const auto page = static_cast<size_t>(getpagesize());
  const size_t ahead = std::min(written, largest_step);
  const size_t begin = std::max(populated_, written / page * page);
  const size_t end = std::min(size_, (written + ahead) / page * page);
  // In few steps: while half of what lies ahead is there, there is time.
  if (end <= begin || (end - begin < ahead / 2 && end < size_)) return;
  // Best effort. A kernel before 5.14 does not know it: there each page is made when it is first written.
  madvise(data_ + begin, end - begin, populate_write);
  populated_ = end;
}

bool SegmentBudget::take(size_t bytes, size_t descriptors) {
  const auto take_from = [](std::atomic<int64_t>& left, size_t wanted) {
    int64_t now = left.load();
    while (now >= static_cast<int64_t>(wanted))
      if (left.compare_exchange_weak(now, now - static_cast<int64_t>(wanted))) return true;
    return false;
  };
  if (!take_from(bytes_, bytes)) return false;
  if (take_from(descriptors_, descriptors)) return true;
  give_back(bytes);
  return false;
}

void SegmentBudget::give_back(size_t bytes, size_t descriptors) {
  bytes_ += static_cast<int64_t>(bytes);
  descriptors_ += static_cast<int64_t>(descriptors);
}

SegmentPool::~SegmentPool() { clear(); }

size_t SegmentPool::size_class(size_t size) {
  constexpr size_t smallest = 64 * 1024;
  if (size <= smallest) return smallest;
  const size_t step = std::bit_floor(size - 1) / 4;
  return (size + step - 1) / step * step;
}

std::shared_ptr<Segment> SegmentPool::lend(size_t size, Residence residence) {
  const size_t wanted = size_class(size);
  uint64_t id;
  {
    MutexLock lock(mutex_);
    if (cleared_) return nullptr;
    if (auto found = idle_.find(wanted); found != idle_.end() && !found->second.empty()) {
      std::shared_ptr<Segment> segment = std::move(found->second.back().segment);
      found->second.pop_back();
      lent_.emplace(segment->id(), segment);
      return segment;
    }
    while (!budget_->take(wanted, descriptors_of(1))) {
      // The one that has been idle longest makes room.
      auto oldest = idle_.end();
      for (auto at = idle_.begin(); at != idle_.end(); ++at)
        if (!at->second.empty() && (oldest == idle_.end() || at->second.front().since < oldest->second.front().since))
          oldest = at;
      if (oldest == idle_.end()) return nullptr;
      retired_.push_back(oldest->second.front().segment->id());
      drop(oldest->first);
      oldest->second.erase(oldest->second.begin());
    }
    bytes_ += wanted;
    ++count_;
    id = next_id_++;
  }
  // Outside the lock: making pages takes long.
  std::shared_ptr<Segment> segment = Segment::make(id, wanted, sharing_, residence);
  MutexLock lock(mutex_);
  if (cleared_) return nullptr;
  if (segment)
    lent_.emplace(id, segment);
  else
    drop(wanted);
  return segment;
}

bool SegmentPool::take_back(uint64_t id, Time now) {
  MutexLock lock(mutex_);
  auto found = lent_.find(id);
  if (found == lent_.end()) return false;
  idle_[found->second->size()].push_back({std::move(found->second), now});
  lent_.erase(found);
  return true;
}

void SegmentPool::withdraw(uint64_t id) {
  MutexLock lock(mutex_);
  if (auto found = lent_.find(id); found != lent_.end()) {
    drop(found->second->size());
    lent_.erase(found);
  }
}

std::vector<uint64_t> SegmentPool::retire_idle(Time since) {
  std::vector<std::shared_ptr<Segment>> unmapped_outside_the_lock;
  MutexLock lock(mutex_);
  for (auto& [size, segments] : idle_) {
    auto keep =
        std::find_if(segments.begin(), segments.end(), [since](const Idle& idle) { return idle.since > since; });
    for (auto at = segments.begin(); at != keep; ++at) {
      retired_.push_back(at->segment->id());
      drop(size);
      unmapped_outside_the_lock.push_back(std::move(at->segment));
    }
    segments.erase(segments.begin(), keep);
  }
  return std::exchange(retired_, {});
}

void SegmentPool::clear() {
  decltype(lent_) lent;
  decltype(idle_) idle;
  MutexLock lock(mutex_);
  std::swap(lent, lent_);
  std::swap(idle, idle_);
  cleared_ = true;
  drop(bytes_, count_);
}

size_t SegmentPool::bytes() {
  MutexLock lock(mutex_);
  return bytes_;
}

size_t SegmentPool::lent_count() {
  MutexLock lock(mutex_);
  return lent_.size();
}

void SegmentPool::drop(size_t size, size_t count) {
  bytes_ -= size;
  count_ -= count;
  budget_->give_back(size, descriptors_of(count));
}

}  // namespace gradwire::net
