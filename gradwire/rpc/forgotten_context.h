// A hint for who forgot the Context: a tensor that has a graph and travels without one arrives detached, and all that
// its receiver would see is torch's "element 0 of tensors does not require grad".
#pragma once

#include <set>
#include <string>

#include "gradwire/base/mutex.h"
#include "gradwire/wire/payload.h"

namespace gradwire {

// Logs once for each function and direction. Any thread.
class ForgottenContext {
 public:
  // What travels to `receiver` where no context is current: the arguments of a call of `function`, or its result.
  void arguments(const wire::Payload& payload, const std::string& function, const std::string& receiver) {
    look(payload, "an argument", function, receiver);
  }
  void result(const wire::Payload& payload, const std::string& function, const std::string& receiver) {
    look(payload, "the result", function, receiver);
  }

 private:
  void look(const wire::Payload& payload, const char* what, const std::string& function, const std::string& receiver)
      GRADWIRE_EXCLUDES(mutex_);

  Mutex mutex_;
  std::set<std::string> told_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire
