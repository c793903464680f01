// A worker that serves until it is told to stop, by Ctrl-C or SIGTERM, and then leaves in good order: docs/stopping.md.
#include <csignal>
#include <iostream>

#include "gradwire/gradwire.h"

inline constexpr gradwire::Function<int(int)> add_one{"add_one"};

int main() {
  using namespace std::chrono_literals;
  // Before the first thread starts: every thread inherits that these signals wait until they are asked for.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  try {
    gradwire::Registry registry;
    registry.add(add_one, [](int x) { return x + 1; });
    auto worker = gradwire::Worker::join(registry);
    std::cout << "serving" << std::endl;
    int number = 0;
    sigwait(&signals, &number);  // Gradwire's threads serve meanwhile
    try {
      worker->leave(3s);  // serves until all others leave too
    } catch (const gradwire::TimeoutError&) {
      // The others stay: the destructor says goodbye to them.
    }
  } catch (const gradwire::Error& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
  std::cout << "stopped" << std::endl;
}
