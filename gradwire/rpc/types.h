// The types whose objects can be made elsewhere, and what their methods are called: so that a caller may write
// `&Net::forward`. Filled by rref/type_entry.h.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <vector>

namespace gradwire {

struct RegisteredType {
  std::string name;
  // Calls on one object run one at a time. Shared with the bodies of its methods.
  std::shared_ptr<bool> serialised = std::make_shared<bool>(false);
  struct Method {
    std::string key;       // the pointer to the method, and its type, as bytes
    std::string function;  // "Net.forward"
  };
  std::vector<Method> methods;
};

using Types = std::map<std::type_index, RegisteredType>;

}  // namespace gradwire
