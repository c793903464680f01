#include <limits>

#include <fmt/format.h>

#include "gradwire/wire/codec_ivalue.h"
#include "gradwire/wire/dict_keys.h"
#include "gradwire/wire/ivalue_type.h"
#include "gradwire/wire/rider.h"

namespace gradwire {
namespace wire {
namespace {

c10::IValue take_as(Decoder& decoder, const c10::TypePtr& type);

c10::IValue take_device(ByteReader& bytes) {
  auto type = bytes.take<int8_t>();
  auto index = bytes.take<int8_t>();
  if (!c10::isValidDeviceType(static_cast<c10::DeviceType>(type)) || index < -1 ||
      (type == static_cast<int8_t>(c10::DeviceType::CPU) && index > 0)) {
    bytes.fail(fmt::format("device {}:{}, which does not exist", type, index));
  }
  return c10::Device(static_cast<c10::DeviceType>(type), index);
}

// There is one way to write each value: what fits in an integer is one.
c10::IValue take_unsigned(ByteReader& bytes) {
  auto value = bytes.take<uint64_t>();
  if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    bytes.fail(fmt::format("an unsigned integer of {}", value));
  }
  return value;
}

c10::IValue take_complex(ByteReader& bytes) {
  auto real = bytes.take<double>();
  auto imaginary = bytes.take<double>();
  return c10::complex<double>(real, imaginary);
}

c10::IValue take_list(Decoder& decoder, const c10::TypePtr& element_type) {
  size_t count = decoder.take_count();
  c10::impl::GenericList list(element_type);
  list.reserve(decoder.reservable<c10::IValue>(count));
  for (size_t i = 0; i < count; ++i) {
    list.push_back(take_as(decoder, element_type));
  }
  return list;
}

// Where the keys' type is Any, a key may turn out to be of a kind that c10's dicts cannot hash.
bool is_key(const c10::IValue& value) {
  return value.isString() || value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble() ||
         value.isTensor() || value.isDevice();
}

c10::IValue take_dict(Decoder& decoder, const c10::TypePtr& key_type, const c10::TypePtr& value_type) {
  size_t count = decoder.take_count();
  std::vector<c10::IValue> keys;
  std::vector<c10::IValue> values;
  for (size_t i = 0; i < count; ++i) {
    keys.push_back(take_as(decoder, key_type));
    values.push_back(take_as(decoder, value_type));
    if (!is_key(keys.back())) {
      decoder.bytes().fail(fmt::format("a dict with a key of kind {}", keys.back().tagKind()));
    }
  }
  if (!keys_spread(keys)) {
    decoder.bytes().fail(fmt::format("a dict of {} keys that collide", count));
  }
  c10::impl::GenericDict dict(key_type, value_type);
  for (size_t i = 0; i < count; ++i) {
    if (!dict.insert(std::move(keys[i]), std::move(values[i])).second) {
      decoder.bytes().fail("a dict has the same key twice");
    }
  }
  return dict;
}

c10::IValue take_tuple(Decoder& decoder, at::ArrayRef<c10::TypePtr> element_types) {
  if (element_types.empty() && decoder.bytes().take<uint8_t>() != 0) {
    decoder.bytes().fail("an empty tuple is one byte of 0");
  }
  std::vector<c10::IValue> elements;
  for (const c10::TypePtr& type : element_types) {
    elements.push_back(take_as(decoder, type));
  }
  return c10::ivalue::Tuple::create(std::move(elements));
}

c10::IValue take_number(Decoder& decoder) {
  auto value = decoder.take<c10::IValue>();
  if (!value.isScalar() || value.isBool()) {
    decoder.bytes().fail(fmt::format("a number of kind {}", value.tagKind()));
  }
  return value;
}

c10::IValue take_none(ByteReader& bytes) {
  if (bytes.take<uint8_t>() != 0) {
    bytes.fail("none is one byte of 0");
  }
  return {};
}

c10::IValue take_as(Decoder& decoder, const c10::TypePtr& type) {
  Deeper deeper = decoder.go_deeper();
  ByteReader& bytes = decoder.bytes();
  switch (type->kind()) {
    case c10::TypeKind::NoneType:
      return take_none(bytes);
    case c10::TypeKind::BoolType:
      return bytes.take<bool>();
    case c10::TypeKind::IntType:
      return bytes.take<int64_t>();
    case c10::TypeKind::FloatType:
      return bytes.take<double>();
    case c10::TypeKind::ComplexType:
      return take_complex(bytes);
    case c10::TypeKind::StringType:
      return std::string(bytes.take_string());
    case c10::TypeKind::DeviceObjType:
      return take_device(bytes);
    case c10::TypeKind::TensorType:
      return decoder.take_tensor();
    case c10::TypeKind::RRefType:
      return decoder.take_rider()->for_script(type->containedTypes()[0]);
    case c10::TypeKind::NumberType:
      return take_number(decoder);
    case c10::TypeKind::OptionalType:
      return bytes.take<bool>() ? take_as(decoder, type->containedTypes()[0]) : c10::IValue();
    case c10::TypeKind::ListType:
      return take_list(decoder, type->containedTypes()[0]);
    case c10::TypeKind::DictType:
      return take_dict(decoder, type->containedTypes()[0], type->containedTypes()[1]);
    case c10::TypeKind::TupleType:
      return take_tuple(decoder, type->containedTypes());
    default:
      return decoder.take<c10::IValue>();
  }
}

c10::IValue take_any_tuple(Decoder& decoder) {
  size_t count = decoder.take_count();
  std::vector<c10::IValue> elements;
  elements.reserve(decoder.reservable<c10::IValue>(count));
  for (size_t i = 0; i < count; ++i) {
    elements.push_back(decoder.take<c10::IValue>());
  }
  return c10::ivalue::Tuple::create(std::move(elements));
}

}  // namespace
}  // namespace wire

c10::IValue Codec<c10::IValue>::decode(wire::Decoder& decoder) {
  using wire::Kind;
  auto kind = decoder.bytes().take<Kind>();
  switch (kind) {
    case Kind::none:
      return {};
    case Kind::boolean:
      return decoder.bytes().take<bool>();
    case Kind::integer:
      return decoder.bytes().take<int64_t>();
    case Kind::unsigned_integer:
      return wire::take_unsigned(decoder.bytes());
    case Kind::real:
      return decoder.bytes().take<double>();
    case Kind::complex:
      return wire::take_complex(decoder.bytes());
    case Kind::string:
      return std::string(decoder.bytes().take_string());
    case Kind::device:
      return wire::take_device(decoder.bytes());
    case Kind::tensor:
      return decoder.take_tensor();
    case Kind::list:
      return wire::take_list(decoder, wire::decode_type(decoder));
    case Kind::dict: {
      c10::TypePtr key_type = wire::decode_type(decoder);
      if (!wire::can_be_key(*key_type)) {
        decoder.bytes().fail("a dict with keys that cannot be keys");
      }
      return wire::take_dict(decoder, key_type, wire::decode_type(decoder));
    }
    case Kind::tuple:
      return wire::take_any_tuple(decoder);
    case Kind::reference: {
      const c10::TypePtr referent = wire::decode_type(decoder);
      return decoder.take_rider()->for_script(referent);
    }
    default:
      decoder.bytes().fail(fmt::format("a value of unknown kind {}", static_cast<int>(kind)));
  }
}

}  // namespace gradwire
