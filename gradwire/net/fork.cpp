#include "gradwire/net/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "gradwire/net/descriptor_limit.h"

namespace gradwire::net {
namespace {

// In a forked child only what is safe in a signal handler may be done: no locks, no memory. Hence plain bits, and state
// of the process that has to be global.
constexpr size_t highest_descriptor = size_t{1} << 20U;
std::array<std::atomic<uint64_t>, highest_descriptor / 64> marked;
std::atomic<int> living = 0;
std::atomic<bool> forked = false;

void in_child() {
  restore_descriptor_limit();
  if (living == 0) return;
  forked = true;
  for (size_t word = 0; word < marked.size(); ++word)
    for (uint64_t bits = marked[word].exchange(0); bits != 0; bits &= bits - 1)
      ::close(static_cast<int>(word * 64 + static_cast<size_t>(__builtin_ctzll(bits))));
}

}  // namespace

bool forked_child() { return forked; }

LivesHere::LivesHere() {
  static const int registered = pthread_atfork(nullptr, nullptr, in_child);
  (void)registered;
  ++living;
}

LivesHere::~LivesHere() { --living; }

void close_when_forked(int descriptor) {
  const auto at = static_cast<size_t>(descriptor);
  if (descriptor >= 0 && at < highest_descriptor) marked[at / 64] |= uint64_t{1} << at % 64;
}

void forget_when_forked(int descriptor) {
  const auto at = static_cast<size_t>(descriptor);
  if (descriptor >= 0 && at < highest_descriptor) marked[at / 64] &= ~(uint64_t{1} << at % 64);
}

}  // namespace gradwire::net
