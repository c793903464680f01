// A value that stays where it was made, whatever its type: what a reference refers to.
#pragma once

#include <memory>
#include <string>
#include <typeinfo>

#include "gradwire/wire/codec.h"
#include "gradwire/wire/type_name.h"

namespace torch::nn {
class Module;
}

namespace gradwire {

// Constant; one for each type.
struct ValueType {
  const std::type_info& type;
  // The same at all workers: "Tensor", "vector<int64>", "Net".
  std::string name;
  // Null: values of the type do not travel.
  wire::Payload (*encode)(const void* value);
  // Null: the type is no torch::nn::Module.
  std::shared_ptr<torch::nn::Module> (*as_module)(const std::shared_ptr<void>& value);
};

// What a type is called where only its name can be compared; it need not travel.
template <class T>
std::string value_type_name() {
  // A struct may contain references to others of its kind.
  if constexpr (std::is_void_v<T>)
    return "void";
  else if constexpr (!wire::PlainStruct<T> && wire::Travels<T>)
    return Codec<T>::signature();
  else
    return wire::short_name(typeid(T));
}

template <class T>
const ValueType& value_type() {
  static const ValueType type{typeid(T), value_type_name<T>(),
                              [] {
                                wire::Payload (*encode)(const void*) = nullptr;
                                if constexpr (std::is_void_v<T>)
                                  encode = [](const void*) { return wire::Payload(); };
                                else if constexpr (wire::Travels<T>)
                                  encode = [](const void* value) {
                                    return wire::encode(*static_cast<const T*>(value));
                                  };
                                return encode;
                              }(),
                              [] {
                                std::shared_ptr<torch::nn::Module> (*as_module)(const std::shared_ptr<void>&) = nullptr;
                                if constexpr (std::is_convertible_v<T*, torch::nn::Module*>)
                                  as_module = [](const std::shared_ptr<void>& value) {
                                    return std::shared_ptr<torch::nn::Module>(std::static_pointer_cast<T>(value));
                                  };
                                return as_module;
                              }()};
  return type;
}

struct Kept {
  std::shared_ptr<void> value;  // null for void
  const ValueType* type = nullptr;
};

// Where the result of a request goes that is kept here instead of sent back. Exactly one of these is called, once.
class Keeper {
 public:
  virtual ~Keeper() = default;
  virtual void keep(Kept kept) = 0;
  // An error as error_on_wire.h writes it.
  virtual void fail(std::string error) = 0;
};

}  // namespace gradwire
