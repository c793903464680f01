#include <fmt/format.h>

#include "gradwire/base/error.h"
#include "gradwire/wire/codec_ivalue.h"
#include "gradwire/wire/ivalue_type.h"
#include "gradwire/wire/rider.h"

namespace gradwire {
namespace wire {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw InvalidArgumentError(
      fmt::format("{} cannot be sent: an IValue travels if it is none, bool, int, double, "
                  "complex, string, device, tensor, RRef, or a list, dict or tuple of these",
                  what));
}

[[noreturn]] void refuse_mismatch(const c10::IValue& value, const c10::Type& type) {
  refuse(fmt::format("an IValue of kind {} in a place of type {}", value.tagKind(), type.repr_str()));
}

void put_as(Encoder& encoder, const c10::IValue& value, const c10::Type& type);

// Where the type of the referent is not known otherwise, it goes along.
void put_reference(Encoder& encoder, const c10::IValue& value) {
  const auto* reference = dynamic_cast<const ScriptRider*>(value.toRRef().get());
  if (reference == nullptr) {
    refuse("an RRef of torch's own RPC");
  }
  encoder.put_rider(reference->rider());
}

// A list may say another element type than the list that contains it does.
std::string type_bytes(const c10::Type& type) {
  Encoder encoder;
  encode_type(encoder, type);
  return encoder.take().bytes;
}

void put_elements(Encoder& encoder, const c10::IValue& list, const c10::Type& element_type) {
  at::ArrayRef<c10::IValue> elements = list.toListRef();
  encoder.put_count(elements.size());
  for (const c10::IValue& element : elements) {
    put_as(encoder, element, element_type);
  }
}

void put_entries(Encoder& encoder, const c10::impl::GenericDict& dict) {
  encoder.put_count(dict.size());
  for (const auto& entry : dict) {
    put_as(encoder, entry.key(), *dict.keyType());
    put_as(encoder, entry.value(), *dict.valueType());
  }
}

// Where the type is known, a value is put without a kind. Something is always put, so that counts stay bounded.
void put_as(Encoder& encoder, const c10::IValue& value, const c10::Type& type) {
  Deeper deeper = encoder.go_deeper();
  auto expect = [&](bool fits) {
    if (!fits) {
      refuse_mismatch(value, type);
    }
  };
  ByteWriter& bytes = encoder.bytes();
  switch (type.kind()) {
    case c10::TypeKind::NoneType:
      expect(value.isNone());
      return bytes.put(uint8_t{0});
    case c10::TypeKind::BoolType:
      expect(value.isBool());
      return bytes.put(value.toBool());
    case c10::TypeKind::IntType:
      expect(value.isInt());
      return bytes.put(value.toInt());
    case c10::TypeKind::FloatType:
      expect(value.isDouble());
      return bytes.put(value.toDouble());
    case c10::TypeKind::ComplexType:
      expect(value.isComplexDouble());
      bytes.put(value.toComplexDouble().real());
      return bytes.put(value.toComplexDouble().imag());
    case c10::TypeKind::StringType:
      expect(value.isString());
      return bytes.put_string(value.toStringView());
    case c10::TypeKind::DeviceObjType:
      expect(value.isDevice());
      bytes.put(static_cast<int8_t>(value.toDevice().type()));
      return bytes.put(static_cast<int8_t>(value.toDevice().index()));
    case c10::TypeKind::TensorType:
      expect(value.isTensor());
      return encoder.put_tensor(value.toTensor());
    case c10::TypeKind::RRefType:
      expect(value.isRRef());
      return put_reference(encoder, value);
    case c10::TypeKind::NumberType:
      expect(value.isScalar() && !value.isBool());
      return encoder.put(value);
    case c10::TypeKind::OptionalType:
      bytes.put(!value.isNone());
      return value.isNone() ? void() : put_as(encoder, value, *type.containedTypes()[0]);
    case c10::TypeKind::ListType: {
      const c10::Type& element_type = *type.containedTypes()[0];
      expect(value.isList() && type_bytes(*value.toList().elementType()) == type_bytes(element_type));
      return put_elements(encoder, value, element_type);
    }
    case c10::TypeKind::DictType: {
      expect(value.isGenericDict());
      c10::impl::GenericDict dict = value.toGenericDict();
      expect(type_bytes(*dict.keyType()) == type_bytes(*type.containedTypes()[0]) &&
             type_bytes(*dict.valueType()) == type_bytes(*type.containedTypes()[1]));
      return put_entries(encoder, dict);
    }
    case c10::TypeKind::TupleType: {
      auto element_types = type.containedTypes();
      expect(value.isTuple() && value.toTupleRef().elements().size() == element_types.size());
      if (element_types.empty()) {
        bytes.put(uint8_t{0});
      }
      for (size_t i = 0; i < element_types.size(); ++i) {
        put_as(encoder, value.toTupleRef().elements()[i], *element_types[i]);
      }
      return;
    }
    default:
      return encoder.put(value);
  }
}

// A kind, then a value of the type that the kind stands for.
void put_simple(Encoder& encoder, Kind kind, const c10::IValue& value, const c10::Type& type) {
  encoder.bytes().put(kind);
  put_as(encoder, value, type);
}

void put_list(Encoder& encoder, const c10::IValue& value) {
  c10::TypePtr element_type = value.toList().elementType();
  encoder.bytes().put(Kind::list);
  encode_type(encoder, *element_type);
  put_elements(encoder, value, *element_type);
}

void put_dict(Encoder& encoder, const c10::impl::GenericDict& dict) {
  if (!can_be_key(*dict.keyType())) {
    refuse(fmt::format("a dict with keys of type {}", dict.keyType()->repr_str()));
  }
  encoder.bytes().put(Kind::dict);
  encode_type(encoder, *dict.keyType());
  encode_type(encoder, *dict.valueType());
  put_entries(encoder, dict);
}

// Element by element: to ask a tuple for its type would make it keep one, which is not safe on two threads.
void put_tuple(Encoder& encoder, const c10::IValue& value) {
  encoder.bytes().put(Kind::tuple);
  const auto& elements = value.toTupleRef().elements();
  encoder.put_count(elements.size());
  for (const c10::IValue& element : elements) {
    encoder.put(element);
  }
}

}  // namespace
}  // namespace wire

void Codec<c10::IValue>::encode(wire::Encoder& encoder, const c10::IValue& value) {
  using wire::Kind;
  if (value.isNone()) {
    encoder.bytes().put(Kind::none);
  } else if (value.isTensor()) {
    wire::put_simple(encoder, Kind::tensor, value, *c10::TensorType::get());
  } else if (value.isInt()) {
    wire::put_simple(encoder, Kind::integer, value, *c10::IntType::get());
  } else if (value.isDouble()) {
    wire::put_simple(encoder, Kind::real, value, *c10::FloatType::get());
  } else if (value.isBool()) {
    wire::put_simple(encoder, Kind::boolean, value, *c10::BoolType::get());
  } else if (value.isComplexDouble()) {
    wire::put_simple(encoder, Kind::complex, value, *c10::ComplexType::get());
  } else if (value.isString()) {
    wire::put_simple(encoder, Kind::string, value, *c10::StringType::get());
  } else if (value.isDevice()) {
    wire::put_simple(encoder, Kind::device, value, *c10::DeviceObjType::get());
  } else if (value.isList()) {
    wire::put_list(encoder, value);
  } else if (value.isGenericDict()) {
    wire::put_dict(encoder, value.toGenericDict());
  } else if (value.isTuple()) {
    wire::put_tuple(encoder, value);
  } else if (value.isRRef()) {
    encoder.bytes().put(Kind::reference);
    wire::encode_type(encoder, *value.toRRef()->type());
    wire::put_reference(encoder, value);
  } else if (value.isUnsigned()) {
    encoder.bytes().put(Kind::unsigned_integer);
    encoder.bytes().put(value.toUInt());
  } else {
    wire::refuse(fmt::format("an IValue of kind {}", value.tagKind()));
  }
}

}  // namespace gradwire
