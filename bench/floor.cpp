// The physical floor under each row: what the machine takes for the same bytes with nothing of ours around them.
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/autograd.h>

#include "row.h"

namespace gradwire::bench {
namespace {

constexpr size_t megabyte = 1024 * 1024;

// How a process waits for bytes: asleep, or by looking again and again, which saves the wake-up while a core is free.
enum class Wait { asleep, looking };

void read_fully(int socket, char* to, size_t size, Wait wait = Wait::asleep) {
  while (size > 0) {
    const ssize_t count = ::recv(socket, to, size, wait == Wait::looking ? MSG_DONTWAIT : 0);
    if (count < 0 && errno == EAGAIN) {
      sched_yield();
      continue;
    }
    if (count <= 0) _exit(0);
    to += count;
    size -= static_cast<size_t>(count);
  }
}

void write_fully(int socket, const char* from, size_t size) {
  while (size > 0) {
    const ssize_t count = ::write(socket, from, size);
    if (count <= 0) _exit(0);
    from += count;
    size -= static_cast<size_t>(count);
  }
}

// Two processes: the other end reads `size` bytes and answers with `answer` bytes.
double socket_seconds(size_t size, size_t answer, int repeats, Wait wait = Wait::asleep) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 0;
  const pid_t child = fork();
  std::unique_ptr<char[]> bytes(new char[std::max(size, answer)]());
  if (child == 0) {
    ::close(pair[0]);
    for (;;) {
      read_fully(pair[1], bytes.get(), size, wait);
      write_fully(pair[1], bytes.get(), answer);
    }
  }
  ::close(pair[1]);
  const double seconds = median_seconds(repeats, [&] {
    write_fully(pair[0], bytes.get(), size);
    read_fully(pair[0], bytes.get(), answer, wait);
  });
  ::close(pair[0]);
  waitpid(child, nullptr, 0);
  return seconds;
}

double memcpy_seconds(size_t size, int repeats) {
  std::unique_ptr<char[]> from(new char[size]());
  std::unique_ptr<char[]> to(new char[size]());
  volatile char seen = 0;
  return median_seconds(repeats, [&] {
    std::memcpy(to.get(), from.get(), size);
    seen = to[size - 1];
  });
}

}  // namespace

std::vector<Row> floor_rows() {
  std::vector<Row> rows;
  const auto ping_pong = [] {
    return 1e6 * std::min(socket_seconds(64, 64, 20000), socket_seconds(64, 64, 20000, Wait::looking));
  };
  rows.push_back({"session.ping_pong.64B", "us", ping_pong});
  for (const char* name : {"function", "operator", "p99_at_half_load", "during_bulk"})
    rows.push_back({std::string("call.blocking.") + name, "us", ping_pong});
  // 256 messages a system call, as many bytes as ours have with their headers.
  rows.push_back({"session.messages.64B", "per_second", [] { return 256 / socket_seconds(256 * 128, 1, 5000); }});
  for (size_t size : {1, 16, 64, 256}) {
    const int repeats = size > 100 ? 9 : size > 10 ? 101 : 1001;
    if (size != 64)
      rows.push_back({"session.one_way." + std::to_string(size) + "MB", "ms",
                      [=] { return 1e3 * memcpy_seconds(size * megabyte, repeats); }});
    rows.push_back({"call.round_trip." + std::to_string(size) + "MB", "ms",
                    [=] { return 2e3 * memcpy_seconds(size * megabyte, repeats); }});
  }
  rows.push_back({"session.one_way.stream.256MB", "ms", [] { return 1e3 * socket_seconds(256 * megabyte, 1, 9); }});
  // There and back for each call, and again for its gradients.
  for (const int hops : {1, 10, 100})
    rows.push_back({"gradient.hops." + std::to_string(hops), "us", [=] { return 2 * hops * ping_pong(); }});
  rows.push_back({"gradient.fast.hops.10", "us", [=] { return 20 * ping_pong(); }});
  // The same in torch's own engine.
  rows.push_back({"gradient.engine_only", "us", [] {
                    const at::Tensor a = at::ones({4}).set_requires_grad(true);
                    return 1e6 * median_seconds(20000, [&] { torch::autograd::grad({a.mul(2).sum()}, {a}); });
                  }});
  return rows;
}

}  // namespace gradwire::bench
