// A process that `gradwire run` started: in a process group of its own, its output in pipes, dead when the launcher
// dies.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "gradwire/net/descriptor.h"

namespace gradwire::tools {

// The file that would run for this name, found as a shell finds it. Throws std::runtime_error in words.
std::string find_program(const std::string& name);

// What this process was started with, and what those it starts should find. Made before anything is changed.
struct Inheritance {
  Inheritance();
  sigset_t blocked;
  struct sigaction pipe;
  rlimit files;
  rlimit no_cores;
};

// How a process ended.
struct End {
  bool by_signal = false;
  int number = 0;  // the signal, or the exit code

  bool failed() const { return by_signal || number != 0; }
  int code() const { return by_signal ? 128 + number : number; }
  std::string in_words() const;  // "exited with code 3", "was killed by signal 9 (Killed)"
};

class Process {
 public:
  struct Order {
    std::string program;
    std::vector<std::string> arguments;    // the name it is called by first
    std::vector<std::string> environment;  // NAME=value
    int input;                             // what it reads as stdin
  };

  Process() = default;
  // Returns once the program runs. Throws std::runtime_error in words if it does not.
  Process(const Order& order, const Inheritance& inheritance);

  pid_t id() const { return id_; }
  int ended() const { return handle_.get(); }  // readable from its end on
  net::Descriptor& output() { return output_; }
  net::Descriptor& errors() { return errors_; }

  // To all of its process group. Until `reap` its number is not given to anyone else, even when it has ended.
  void signal(int number) const;
  // Once it has ended.
  End end() const;
  // Lets go of its number, after its end.
  void reap();

 private:
  pid_t id_ = -1;
  net::Descriptor handle_;
  net::Descriptor output_;
  net::Descriptor errors_;
};

}  // namespace gradwire::tools
