// Values that came over the wire, made into the arguments that a schema wants: those of an operator or of a script.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

namespace c10 {
struct FunctionSchema;
}

namespace gradwire {

struct FittedArguments {
  std::vector<c10::IValue> values;  // one for each argument of the schema, defaults filled in
  std::string misfit;               // why they do not fit, in words; empty if they do
  bool converted = false;           // some value was not of the type it has now
  bool keywords_by_place = false;   // some value stands for an argument that is meant to be given by name
};

// The values are given in the order of the schema. Where there is a `self`, it stands before them and is taken as it
// is.
FittedArguments fit_arguments(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& given,
                              const c10::IValue* self = nullptr);

// "aten::relu(Tensor self) -> Tensor"
std::string text_of(const c10::FunctionSchema& schema);

}  // namespace gradwire
