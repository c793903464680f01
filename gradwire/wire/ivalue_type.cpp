#include "gradwire/wire/ivalue_type.h"

#include <fmt/format.h>

#include "gradwire/base/error.h"

namespace gradwire::wire {
namespace {

Kind kind_of(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::AnyType:
      return Kind::any;
    case c10::TypeKind::NoneType:
      return Kind::none;
    case c10::TypeKind::BoolType:
      return Kind::boolean;
    case c10::TypeKind::IntType:
      return Kind::integer;
    case c10::TypeKind::FloatType:
      return Kind::real;
    case c10::TypeKind::ComplexType:
      return Kind::complex;
    case c10::TypeKind::StringType:
      return Kind::string;
    case c10::TypeKind::DeviceObjType:
      return Kind::device;
    case c10::TypeKind::TensorType:
      return Kind::tensor;
    case c10::TypeKind::NumberType:
      return Kind::number;
    case c10::TypeKind::OptionalType:
      return Kind::optional;
    case c10::TypeKind::ListType:
      return Kind::list;
    case c10::TypeKind::DictType:
      return Kind::dict;
    case c10::TypeKind::TupleType:
      return Kind::tuple;
    case c10::TypeKind::RRefType:
      return Kind::reference;
    default:
      throw InvalidArgumentError(
          fmt::format("a list or dict of {} cannot be sent: only none, bool, int, float, complex, str, device, Tensor, "
                      "Any, RRef, and lists, dicts, tuples and optionals of these travel",
                      type.repr_str()));
  }
}

c10::TypePtr decode_optional_type(Decoder& decoder) {
  c10::TypePtr element = decode_type(decoder);
  if (c10::NoneType::get()->isSubtypeOf(*element)) {
    decoder.bytes().fail("an optional of what may be none already");
  }
  // Torch tells a list of optional tensors by the address of this one type.
  return element->kind() == c10::TypeKind::TensorType ? c10::getTypePtrCopy<std::optional<at::Tensor>>()
                                                      : c10::OptionalType::create(element);
}

c10::TypePtr decode_dict_type(Decoder& decoder) {
  c10::TypePtr key = decode_type(decoder);
  if (!can_be_key(*key)) {
    decoder.bytes().fail("a dict with keys that cannot be keys");
  }
  c10::TypePtr value = decode_type(decoder);
  // DictType::create is inline and, built with sanitizers, asks for a typeinfo that libtorch hides; this is the same
  // inside libtorch.
  static const c10::TypePtr pattern = c10::getTypePtrCopy<c10::Dict<std::string, std::string>>();
  return pattern->createWithContained({std::move(key), std::move(value)});
}

c10::TypePtr decode_tuple_type(Decoder& decoder) {
  size_t count = decoder.take_count();
  std::vector<c10::TypePtr> elements;
  elements.reserve(decoder.reservable<c10::TypePtr>(count));
  for (size_t i = 0; i < count; ++i) {
    elements.push_back(decode_type(decoder));
  }
  return c10::TupleType::create(std::move(elements));
}

}  // namespace

void encode_type(Encoder& encoder, const c10::Type& type) {
  Deeper deeper = encoder.go_deeper();
  Kind kind = kind_of(type);
  encoder.bytes().put(kind);
  if (kind == Kind::tuple) {
    encoder.put_count(type.containedTypes().size());
  }
  for (const auto& contained : type.containedTypes()) {
    encode_type(encoder, *contained);
  }
}

c10::TypePtr decode_type(Decoder& decoder) {
  Deeper deeper = decoder.go_deeper();
  auto kind = decoder.bytes().take<Kind>();
  switch (kind) {
    case Kind::any:
      return c10::AnyType::get();
    case Kind::none:
      return c10::NoneType::get();
    case Kind::boolean:
      return c10::BoolType::get();
    case Kind::integer:
      return c10::IntType::get();
    case Kind::real:
      return c10::FloatType::get();
    case Kind::complex:
      return c10::ComplexType::get();
    case Kind::string:
      return c10::StringType::get();
    case Kind::device:
      return c10::DeviceObjType::get();
    case Kind::tensor:
      return c10::TensorType::get();
    case Kind::number:
      return c10::NumberType::get();
    case Kind::optional:
      return decode_optional_type(decoder);
    case Kind::list:
      return c10::ListType::create(decode_type(decoder));
    case Kind::dict:
      return decode_dict_type(decoder);
    case Kind::tuple:
      return decode_tuple_type(decoder);
    case Kind::reference:
      return c10::RRefType::create(decode_type(decoder));
    default:
      decoder.bytes().fail(fmt::format("a type of unknown kind {}", static_cast<int>(kind)));
  }
}

bool can_be_key(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::AnyType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::TensorType:
      return true;
    default:
      return false;
  }
}

}  // namespace gradwire::wire
