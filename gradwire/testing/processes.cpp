#include "gradwire/testing/processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "gradwire/base/error.h"

namespace gradwire::testing {
namespace {

// The line to the process that forks; one per program, made by `prepare`.
int nursery = -1;
Mutex nursery_mutex;

struct Order {
  Processes::Program program;
  size_t argument_size;
};

std::pair<net::Descriptor, net::Descriptor> socket_pair() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  return {net::Descriptor(pair[0]), net::Descriptor(pair[1])};
}

bool write_all(int file, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = ::send(file, at, size, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool read_all(int file, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = ::read(file, at, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

// Takes the next line out of `heard`, if it has one.
bool next_line(std::string& heard, std::string& line) {
  const size_t end = heard.find('\n');
  if (end == std::string::npos) return false;
  line = heard.substr(0, end);
  heard.erase(0, end + 1);
  return true;
}

[[noreturn]] void run_child(const Order& order, std::string argument, net::Descriptor line) {
  // A test that is gone takes its processes along.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 1;
  try {
    Child child(std::move(argument), std::move(line));
    status = order.program(child);
  } catch (const std::exception& error) {
    std::cerr << "a started process ended by an exception: " << error.what() << std::endl;
  }
  std::cout.flush();
  _exit(status);
}

// Between the nursery and each child stands a keeper that waits for it and reports its end.
[[noreturn]] void keep(const Order& order, std::string argument, net::Descriptor line, net::Descriptor status) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const pid_t child = fork();
  if (child == 0) {
    status = net::Descriptor();
    run_child(order, std::move(argument), std::move(line));
  }
  line = net::Descriptor();
  write_all(status.get(), &child, sizeof child);
  int how = 0;
  while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
  }
  const int code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
  write_all(status.get(), &code, sizeof code);
  _exit(0);
}

[[noreturn]] void run_nursery(int orders) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGCHLD, SIG_IGN);  // keepers are not waited for
  for (;;) {
    Order order{};
    msghdr message{};
    iovec buffer{&order, sizeof order};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control;
    message.msg_iov = &buffer;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t count = recvmsg(orders, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof order) _exit(0);
    int passed[2];
    std::memcpy(passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof passed);
    net::Descriptor line(passed[0]);
    net::Descriptor status(passed[1]);
    std::string argument(order.argument_size, '\0');
    if (!read_all(orders, argument.data(), argument.size())) _exit(0);
    if (fork() == 0) {
      ::close(orders);
      signal(SIGCHLD, SIG_DFL);
      keep(order, std::move(argument), std::move(line), std::move(status));
    }
  }
}

}  // namespace

void Child::say(const std::string& text) {
  const std::string line = text + "\n";
  if (!write_all(line_.get(), line.data(), line.size())) _exit(1);
}

std::string Child::hear() {
  std::string line;
  while (!next_line(heard_, line)) {
    char buffer[4096];
    const ssize_t count = ::read(line_.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) _exit(1);
    heard_.append(buffer, static_cast<size_t>(count));
  }
  return line;
}

Process::~Process() {
  if (exit_status_ < 0) ::kill(id_, SIGKILL);
}

void Process::say(const std::string& text) {
  const std::string line = text + "\n";
  if (!write_all(line_.get(), line.data(), line.size()))
    throw std::runtime_error(fmt::format("process {} has ended; it cannot be told \"{}\"", id_, text));
}

std::string Process::hear(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::string line;
  while (!next_line(heard_, line)) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd watched{line_.get(), POLLIN, 0};
    const int happened = left.count() > 0 ? poll(&watched, 1, static_cast<int>(left.count())) : 0;
    if (happened < 0 && errno == EINTR) continue;
    if (happened == 0) throw TimeoutError(fmt::format("process {} said nothing for {} ms", id_, limit.count()));
    char buffer[4096];
    const ssize_t count = ::read(line_.get(), buffer, sizeof buffer);
    if (count <= 0) throw std::runtime_error(fmt::format("process {} has ended", id_));
    heard_.append(buffer, static_cast<size_t>(count));
  }
  return line;
}

void Process::expect(const std::string& text, std::chrono::milliseconds limit) {
  std::string before;
  const auto in_full = [&](const std::exception& error) {
    return fmt::format("{}, while \"{}\" was waited for; before that it said: {}", error.what(), text, before);
  };
  try {
    for (std::string line = hear(limit); line != text; line = hear(limit)) before += line + "\n";
  } catch (const TimeoutError& error) {
    throw TimeoutError(in_full(error));
  } catch (const std::exception& error) {
    throw std::runtime_error(in_full(error));
  }
}

void Process::signal(int number) { ::kill(id_, number); }

void Process::stop() {
  signal(SIGSTOP);
  const auto stands_still = [this] {
    std::error_code gone;
    for (const auto& thread : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", id_), gone)) {
      std::string text;
      std::getline(std::ifstream(thread.path() / "stat"), text);
      // The state stands behind the name, which is in parentheses and may hold anything.
      const size_t name_end = text.rfind(')');
      if (name_end != std::string::npos && text.compare(name_end, 3, ") T") != 0) return false;
    }
    return true;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!stands_still()) {
    if (std::chrono::steady_clock::now() > deadline)
      throw TimeoutError(fmt::format("process {} still runs a minute after it was told to stop", id_));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Process::kill() {
  if (exit_status_ >= 0) return;
  ::kill(id_, SIGKILL);
  wait();
}

int Process::wait(std::chrono::milliseconds limit) {
  if (exit_status_ >= 0) return exit_status_;
  pollfd watched{status_.get(), POLLIN, 0};
  int happened;
  do happened = poll(&watched, 1, static_cast<int>(limit.count()));
  while (happened < 0 && errno == EINTR);
  if (happened == 0) throw TimeoutError(fmt::format("process {} did not end within {} ms", id_, limit.count()));
  if (!read_all(status_.get(), &exit_status_, sizeof exit_status_)) exit_status_ = 128 + SIGKILL;
  return exit_status_;
}

void Processes::prepare() {
  auto [mine, theirs] = socket_pair();
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    mine = net::Descriptor();
    run_nursery(theirs.release());
  }
  nursery = mine.release();
}

std::unique_ptr<Process> Processes::start(Program program, const std::string& argument) {
  if (nursery < 0) throw std::logic_error("Processes::prepare() was not called at the start of main");
  auto [line, child_line] = socket_pair();
  auto [status, child_status] = socket_pair();
  const int passed[2] = {child_line.get(), child_status.get()};
  Order order{program, argument.size()};
  msghdr message{};
  iovec buffers[2] = {{&order, sizeof order}, {const_cast<char*>(argument.data()), argument.size()}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof passed)> control{};
  message.msg_iov = buffers;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof passed);
  std::memcpy(CMSG_DATA(header), passed, sizeof passed);
  {
    MutexLock lock(nursery_mutex);
    if (sendmsg(nursery, &message, MSG_NOSIGNAL) != sizeof order ||
        !write_all(nursery, argument.data(), argument.size()))
      throw std::runtime_error("the process that forks others is gone");
  }
  // Only the child keeps its ends.
  child_line = net::Descriptor();
  child_status = net::Descriptor();
  pid_t id = 0;
  if (!read_all(status.get(), &id, sizeof id)) throw std::runtime_error("a process could not be forked");
  return std::unique_ptr<Process>(new Process(id, std::move(line), std::move(status)));
}

}  // namespace gradwire::testing
