#include "tools/run_process.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace gradwire::tools {
namespace {

std::pair<net::Descriptor, net::Descriptor> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(std::string("no pipe can be made: ") + ::strerror(errno));
  return {net::Descriptor(ends[0]), net::Descriptor(ends[1])};
}

// Why this file cannot be run; empty if it can.
std::string fault_of(const std::string& path) {
  struct stat about{};
  if (::stat(path.c_str(), &about) != 0)
    return errno == ENOENT || errno == ENOTDIR ? "there is no such file" : ::strerror(errno);
  if (S_ISDIR(about.st_mode)) return "it is a folder";
  if (!S_ISREG(about.st_mode)) return "it is not a file";
  if (::access(path.c_str(), X_OK) != 0)
    return "it is not executable: chmod +x, or put its interpreter before it, as in python " + path;
  return "";
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Between fork and exec: nothing here allocates.
[[noreturn]] void become(const char* program, char* const* arguments, char* const* environment, int input, int output,
                         int errors, int failure, pid_t parent, const Inheritance& inheritance) {
  ::setpgid(0, 0);
  // The kernel ends this process when the launcher dies; the launcher may have died before it was asked to.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  ::setrlimit(RLIMIT_NOFILE, &inheritance.files);
  // An error that main does not catch aborts the process. Its text says more than a core file; a program that wants one
  // may raise the limit again.
  ::setrlimit(RLIMIT_CORE, &inheritance.no_cores);
  ::sigaction(SIGPIPE, &inheritance.pipe, nullptr);
  ::sigprocmask(SIG_SETMASK, &inheritance.blocked, nullptr);
  ::execve(program, arguments, environment);
  const int why = errno;
  [[maybe_unused]] const ssize_t told = ::write(failure, &why, sizeof why);
  ::_exit(127);
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (const std::string fault = fault_of(name); !fault.empty()) throw std::runtime_error(name + ": " + fault);
    return name;
  }
  const char* path = std::getenv("PATH");
  const std::string folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string folder = folders.substr(begin, end - begin);
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (fault_of(candidate).empty()) return candidate;
    begin = end + 1;
  }
  std::string hint;
  if (::access(name.c_str(), F_OK) == 0) hint = "; for the file in this folder, say ./" + name;
  throw std::runtime_error(name + ": there is no such program in PATH" + hint);
}

Inheritance::Inheritance() {
  ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
  ::sigaction(SIGPIPE, nullptr, &pipe);
  ::getrlimit(RLIMIT_NOFILE, &files);
  ::getrlimit(RLIMIT_CORE, &no_cores);
  no_cores.rlim_cur = 0;
}

std::string End::in_words() const {
  if (!by_signal) return "exited with code " + std::to_string(number);
  return "was killed by signal " + std::to_string(number) + " (" + ::strsignal(number) + ")";
}

Process::Process(const Order& order, const Inheritance& inheritance) {
  auto [output, output_end] = make_pipe();
  auto [errors, errors_end] = make_pipe();
  auto [failure, failure_end] = make_pipe();
  const std::vector<char*> arguments = pointers(order.arguments);
  const std::vector<char*> environment = pointers(order.environment);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error(std::string("no process can be started: ") + ::strerror(errno));
  if (child == 0)
    become(order.program.c_str(), arguments.data(), environment.data(), order.input, output_end.get(), errors_end.get(),
           failure_end.get(), parent, inheritance);
  // Here too, so that the group is there before either goes on.
  ::setpgid(child, child);
  failure_end = net::Descriptor();
  id_ = child;
  handle_ = net::Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  int why = handle_ ? 0 : errno;
  // Ends when the program runs: exec closes the other end.
  int reported = 0;
  ssize_t count;
  do count = ::read(failure.get(), &reported, sizeof reported);
  while (count < 0 && errno == EINTR);
  if (count == sizeof reported) why = reported;
  if (why != 0) {
    signal(SIGKILL);
    reap();
    std::string hint;
    if (why == ENOEXEC) hint = " (a script says in its first line what runs it: #!/bin/sh)";
    if (why == ENOENT) hint = " (is what runs it there: the interpreter in its #! line, or the loader of libraries?)";
    throw std::runtime_error(order.program + ": it cannot be run: " + ::strerror(why) + hint);
  }
  output_ = std::move(output);
  errors_ = std::move(errors);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
}

void Process::signal(int number) const {
  // It may have left its group.
  if (::kill(-id_, number) != 0) ::kill(id_, number);
}

End Process::end() const {
  siginfo_t how{};
  while (::waitid(P_PID, static_cast<id_t>(id_), &how, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  return {.by_signal = how.si_code != CLD_EXITED, .number = how.si_status};
}

void Process::reap() {
  siginfo_t how{};
  while (::waitid(P_PID, static_cast<id_t>(id_), &how, WEXITED) != 0 && errno == EINTR) {
  }
  handle_ = net::Descriptor();
}

}  // namespace gradwire::tools
