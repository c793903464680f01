// Real worker processes for tests: started, killed and stopped by the hundred, cheaply.
//
//   int main(int argc, char** argv) {                       // before anything starts a thread
//     gradwire::testing::Processes::prepare();
//     ...
//   gradwire::testing::Processes processes;
//   auto child = processes.start([](gradwire::testing::Child& me) { me.say("hello " + me.argument()); return 0; },
//   "you"); child->expect("hello you"); child->kill();
//
// They are forked from a process that has libtorch loaded and no threads: a fork takes a millisecond, while starting a
// program that loads libtorch takes half a second, and forking one that has threads is not safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gradwire/base/mutex.h"
#include "gradwire/net/descriptor.h"

namespace gradwire::testing {

// What a started process has: its argument and a line to its parent. One thread at a time.
class Child {
 public:
  Child(std::string argument, net::Descriptor line) : argument_(std::move(argument)), line_(std::move(line)) {}
  const std::string& argument() const { return argument_; }
  void say(const std::string& text);
  // The next line the parent said; ends the process if the parent is gone.
  std::string hear();

 private:
  const std::string argument_;
  const net::Descriptor line_;
  std::string heard_;
};

// A process that was started. Killed, if it still runs, when this is destroyed. One thread at a time.
class Process {
 public:
  ~Process();
  pid_t id() const { return id_; }
  void say(const std::string& text);
  // The next line the child said; throws TimeoutError (naming the line waited for, if any) or Error if it ended.
  std::string hear(std::chrono::milliseconds limit = std::chrono::seconds(60));
  // Hears lines until this one.
  void expect(const std::string& text, std::chrono::milliseconds limit = std::chrono::seconds(60));
  void signal(int number);
  // SIGSTOP, and waits until all its threads stand still: the signal alone takes its time on a busy host.
  void stop();
  void kill();  // SIGKILL, and waits for the end
  // Waits for the end; the exit status, or 128 + the signal.
  int wait(std::chrono::milliseconds limit = std::chrono::seconds(60));

 private:
  friend class Processes;
  Process(pid_t id, net::Descriptor line, net::Descriptor status)
      : id_(id), line_(std::move(line)), status_(std::move(status)) {}
  const pid_t id_;
  const net::Descriptor line_;
  const net::Descriptor status_;  // the exit status arrives here
  std::string heard_;
  int exit_status_ = -1;
};

// Any thread may use it.
class Processes {
 public:
  // Once, at the start of main. What runs in a started process must be a function without captures: it is called by
  // address in a fork of this very program.
  static void prepare();

  using Program = int (*)(Child&);
  std::unique_ptr<Process> start(Program program, const std::string& argument = "");
};

}  // namespace gradwire::testing
