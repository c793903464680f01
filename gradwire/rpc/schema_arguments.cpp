#include "gradwire/rpc/schema_arguments.h"

#include <sstream>

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "gradwire/wire/dtype.h"

namespace gradwire {
namespace {

using c10::IValue;
using c10::TypeKind;

// A dtype, a layout and a memory format are integers in a schema, and torch uses them as indices without a look.
bool is_in_range(int64_t value, TypeKind real_kind) {
  switch (real_kind) {
    case TypeKind::ScalarTypeType:
      return value >= 0 && value < static_cast<int64_t>(c10::ScalarType::Undefined);
    case TypeKind::LayoutType:
      return value >= 0 && value < static_cast<int64_t>(c10::Layout::NumOptions);
    case TypeKind::MemoryFormatType:
      return value >= 0 && value < static_cast<int64_t>(c10::MemoryFormat::NumOptions);
    default:
      return true;
  }
}

bool is_integer(const IValue& value) { return value.isInt() || value.isUnsigned(); }

double as_double(const IValue& value) { return value.toScalar().toDouble(); }

bool is_tensor(const IValue& value) { return value.isTensor() && value.toTensor().defined(); }

bool is_nothing(const IValue& value) { return value.isNone() || (value.isTensor() && !value.toTensor().defined()); }

// Fits one value. `real` is the type as it was declared, where `type` says int for a dtype.
class Fitter {
 public:
  // Nothing if it does not fit.
  std::optional<IValue> fit(const IValue& value, const c10::TypePtr& type, const c10::TypePtr& real) {
    switch (type->kind()) {
      case TypeKind::AnyType:
        return value;
      case TypeKind::TensorType:
        return as_it_is(is_tensor(value), value);
      case TypeKind::NumberType:
        return as_it_is(value.isScalar(), value);
      case TypeKind::BoolType:
        return as_it_is(value.isBool(), value);
      case TypeKind::StringType:
        return as_it_is(value.isString(), value);
      case TypeKind::NoneType:
        return as_it_is(value.isNone(), value);
      case TypeKind::IntType:
        return as_it_is(value.isInt() && is_in_range(value.toInt(), real->kind()), value);
      case TypeKind::FloatType:
        return is_integer(value) ? convert(as_double(value)) : as_it_is(value.isDouble(), value);
      case TypeKind::ComplexType:
        return is_integer(value) || value.isDouble() ? convert(c10::complex<double>(as_double(value), 0))
                                                     : as_it_is(value.isComplexDouble(), value);
      case TypeKind::DeviceObjType:
        return value.isString() ? fit_device(value.toStringRef()) : as_it_is(value.isDevice(), value);
      case TypeKind::OptionalType:
        return is_nothing(value) ? std::optional<IValue>(IValue()) : fit(value, inner(type, 0), inner(real, 0));
      case TypeKind::ListType:
        return fit_list(value, inner(type, 0), inner(real, 0));
      case TypeKind::DictType:
        return fit_dict(value, inner(type, 0), inner(type, 1));
      case TypeKind::TupleType:
        return fit_tuple(value, type);
      case TypeKind::UnionType:
        return fit_union(value, type);
      default:
        return as_it_is(value.type()->isSubtypeOf(*type), value);
    }
  }

  // A number stands for a list of it where the schema says how long: "int[2] stride".
  std::optional<IValue> fit_repeated(const IValue& value, const c10::TypePtr& element_type, int32_t count) {
    std::optional<IValue> element = fit(value, element_type, element_type);
    if (!element) {
      return std::nullopt;
    }
    c10::impl::GenericList list(element_type);
    for (int32_t i = 0; i < count; ++i) {
      list.push_back(*element);
    }
    return convert(list);
  }

  bool converted() const { return converted_; }

 private:
  static std::optional<IValue> as_it_is(bool fits, const IValue& value) {
    return fits ? std::optional<IValue>(value) : std::nullopt;
  }

  std::optional<IValue> convert(IValue value) {
    converted_ = true;
    return value;
  }

  static c10::TypePtr inner(const c10::TypePtr& type, size_t index) {
    if (const auto* optional = type->castRaw<c10::OptionalType>()) {
      return optional->getElementType();
    }
    return type->containedType(index);
  }

  std::optional<IValue> fit_device(const std::string& name) {
    try {
      return convert(c10::Device(name));
    } catch (const c10::Error&) {
      return std::nullopt;  // the misfit says what was given
    }
  }

  std::optional<IValue> fit_list(const IValue& value, const c10::TypePtr& type, const c10::TypePtr& real) {
    if (!value.isList() && !value.isTuple()) {
      return std::nullopt;
    }
    converted_ = converted_ || !value.isList() || *value.toList().elementType() != *type;
    auto elements = value.isList() ? value.toListRef() : at::ArrayRef<IValue>(value.toTupleRef().elements());
    c10::impl::GenericList list(type);
    list.reserve(elements.size());
    for (const IValue& element : elements) {
      std::optional<IValue> fitting = fit(element, type, real);
      if (!fitting) {
        return std::nullopt;
      }
      list.push_back(*std::move(fitting));
    }
    return list;
  }

  std::optional<IValue> fit_dict(const IValue& value, const c10::TypePtr& key_type, const c10::TypePtr& value_type) {
    if (!value.isGenericDict()) {
      return std::nullopt;
    }
    auto given = value.toGenericDict();
    converted_ = converted_ || *given.keyType() != *key_type || *given.valueType() != *value_type;
    c10::impl::GenericDict dict(key_type, value_type);
    for (const auto& entry : given) {
      auto fitting_key = fit(entry.key(), key_type, key_type);
      auto fitting_value = fit(entry.value(), value_type, value_type);
      if (!fitting_key || !fitting_value) {
        return std::nullopt;
      }
      dict.insert_or_assign(*std::move(fitting_key), *std::move(fitting_value));
    }
    return dict;
  }

  std::optional<IValue> fit_tuple(const IValue& value, const c10::TypePtr& type) {
    auto types = type->containedTypes();
    if (!value.isTuple() || value.toTupleRef().elements().size() != types.size()) {
      return std::nullopt;
    }
    std::vector<IValue> elements;
    for (size_t i = 0; i < types.size(); ++i) {
      auto element = fit(value.toTupleRef().elements()[i], types[i], types[i]);
      if (!element) {
        return std::nullopt;
      }
      elements.push_back(*std::move(element));
    }
    // A named tuple travels without its name.
    return c10::ivalue::Tuple::createNamed(std::move(elements), type->cast<c10::TupleType>());
  }

  // As one of the types, if it is of one of them as it is; else as the first that it can be made.
  std::optional<IValue> fit_union(const IValue& value, const c10::TypePtr& type) {
    std::optional<IValue> first;
    for (const c10::TypePtr& one : type->containedTypes()) {
      Fitter fitter;
      std::optional<IValue> fitting = fitter.fit(value, one, one);
      if (fitting && !fitter.converted()) {
        return fitting;
      }
      if (!first) {
        first = std::move(fitting);
      }
    }
    converted_ = converted_ || first.has_value();
    return first;
  }

  bool converted_ = false;
};

bool is_dtype(const c10::TypePtr& type) {
  const auto* optional = type->castRaw<c10::OptionalType>();
  return (optional != nullptr ? *optional->getElementType() : *type).kind() == TypeKind::ScalarTypeType;
}

// `real` is the type as it was declared.
std::string describe(const IValue& value, const c10::TypePtr& real) {
  if (value.isInt() && is_dtype(real) && value.toInt() >= 0 && value.toInt() <= 255) {
    if (const wire::Dtype* dtype = wire::dtype_with_number(static_cast<uint8_t>(value.toInt()))) {
      return fmt::format("{}, a dtype that torch {} does not have", dtype->name, TORCH_VERSION);
    }
  }
  if (value.isTensor() && !value.toTensor().defined()) {
    return "an undefined tensor";
  }
  return value.isInt()      ? fmt::format("int {}", value.toInt())
         : value.isString() ? fmt::format("str \"{}\"", value.toStringRef())
                            : value.type()->repr_str();
}

std::optional<IValue> fit_one(const IValue& value, const c10::Argument& argument, FittedArguments& fitted) {
  Fitter fitter;
  std::optional<IValue> fitting = fitter.fit(value, argument.type(), argument.real_type());
  if (!fitting && argument.N() && value.isScalar()) {
    c10::TypePtr list = argument.type();
    if (const auto* optional = list->castRaw<c10::OptionalType>()) {
      list = optional->getElementType();
    }
    if (list->kind() == TypeKind::ListType) {
      fitting = fitter.fit_repeated(value, list->containedType(0), *argument.N());
    }
  }
  fitted.converted = fitted.converted || fitter.converted();
  fitted.keywords_by_place = fitted.keywords_by_place || argument.kwarg_only();
  return fitting;
}

}  // namespace

FittedArguments fit_arguments(const c10::FunctionSchema& schema, const std::vector<IValue>& given, const IValue* self) {
  FittedArguments fitted;
  const auto& arguments = schema.arguments();
  fitted.values.reserve(arguments.size());
  if (self != nullptr) {
    fitted.values.push_back(*self);
  }
  const size_t first = fitted.values.size();
  if (given.size() > arguments.size() - first) {
    fitted.misfit = fmt::format("{} are given, {} are taken", given.size(), arguments.size() - first);
    return fitted;
  }
  for (size_t i = first; i < arguments.size(); ++i) {
    const c10::Argument& argument = arguments[i];
    if (i - first < given.size()) {
      const IValue& value = given[i - first];
      std::optional<IValue> fitting = fit_one(value, argument, fitted);
      if (!fitting) {
        fitted.misfit = fmt::format("argument {}, {}, is {}, {} is wanted", i - first + 1, argument.name(),
                                    describe(value, argument.real_type()), argument.real_type()->str());
        return fitted;
      }
      fitted.values.push_back(*std::move(fitting));
    } else if (argument.default_value()) {
      fitted.values.push_back(*argument.default_value());
    } else {
      fitted.misfit = fmt::format("argument {}, {}, is missing", i - first + 1, argument.name());
      return fitted;
    }
  }
  return fitted;
}

std::string text_of(const c10::FunctionSchema& schema) {
  std::ostringstream text;
  text << schema;
  return text.str();
}

}  // namespace gradwire
