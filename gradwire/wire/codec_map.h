// std::map and std::unordered_map: a count, then keys with their values.
#pragma once

#include <map>
#include <unordered_map>

#include "gradwire/wire/codec_scalar.h"

namespace gradwire {

namespace wire {

template <class Map>
void encode_map(Encoder& encoder, const Map& map) {
  encoder.put_count(map.size());
  for (const auto& [key, value] : map) {
    encoder.put(key);
    encoder.put(value);
  }
}

template <class Map>
Map decode_map(Decoder& decoder) {
  Map map;
  for (size_t left = decoder.take_count(); left > 0; --left) {
    auto key = decoder.take<typename Map::key_type>();
    auto value = decoder.take<typename Map::mapped_type>();
    size_t before = map.size();
    map.emplace_hint(map.end(), std::move(key), std::move(value));
    if (map.size() == before) {
      decoder.bytes().fail("a map has the same key twice");
    }
  }
  return map;
}

}  // namespace wire

template <wire::Travels Key, wire::Travels Value, class... Rest>
struct Codec<std::map<Key, Value, Rest...>> {
  using Map = std::map<Key, Value, Rest...>;
  static void encode(wire::Encoder& encoder, const Map& value) { wire::encode_map(encoder, value); }
  static Map decode(wire::Decoder& decoder) { return wire::decode_map<Map>(decoder); }
  static std::string signature() {
    return wire::template_name("map", {Codec<Key>::signature(), Codec<Value>::signature()});
  }
};

template <wire::Travels Key, wire::Travels Value, class... Rest>
struct Codec<std::unordered_map<Key, Value, Rest...>> {
  using Map = std::unordered_map<Key, Value, Rest...>;
  static void encode(wire::Encoder& encoder, const Map& value) { wire::encode_map(encoder, value); }
  static Map decode(wire::Decoder& decoder) { return wire::decode_map<Map>(decoder); }
  static std::string signature() {
    return wire::template_name("unordered_map", {Codec<Key>::signature(), Codec<Value>::signature()});
  }
};

}  // namespace gradwire
