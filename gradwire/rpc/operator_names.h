// The names of the operators that exist in this process. The dispatcher finds one by its full name, but lists all or
// none, which takes a millisecond: so a list is kept, and made anew when a name is missing from it, since libraries
// with operators may be loaded at any time.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "gradwire/base/mutex.h"

namespace gradwire {

// "aten::add.Tensor"; "default" for the overload that has no name, as in Python.
std::string full_name(const c10::OperatorName& name);

// Any thread may use it.
class OperatorNames {
 public:
  // "aten::add.Tensor" finds one, "aten::add" all overloads, in the order of their names, but for those that came to a
  // name after it was listed.
  std::vector<c10::OperatorHandle> find(const std::string& name);

  // What might have been meant: overloads of the same name, else names spelt much the same.
  std::vector<std::string> similar_to(const std::string& name);

 private:
  using Overloads = std::unordered_map<std::string, std::vector<std::string>>;
  std::shared_ptr<const Overloads> current();
  std::shared_ptr<const Overloads> list_again();

  Mutex mutex_;
  std::shared_ptr<const Overloads> overloads_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire
