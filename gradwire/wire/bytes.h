// Bytes on their way out and in: little-endian, fixed width, no alignment.
//
//   ByteWriter writer;                       ByteReader reader(bytes);
//   writer.put(uint32_t{7});                 auto seven = reader.take<uint32_t>();
//   writer.put_string("seven");              auto name = reader.take_string();
//                                            reader.expect_end("a greeting");
//
// What is read may come from a broken or hostile peer: every length is compared with what is there before anything
// is allocated for it, and whatever does not fit is a MalformedError.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace gradwire::wire {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in memory: little-endian");

// The bytes are not what they should be; the text says what was wrong and where.
class MalformedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A number with the same bytes on every machine; long double has not.
template <class T>
concept Scalar = (std::integral<T> && sizeof(T) <= 8) || std::same_as<T, float> || std::same_as<T, double>;

template <class T>
concept ScalarOrEnum = Scalar<T> || std::is_enum_v<T>;

// Used by one thread at a time.
class ByteWriter {
 public:
  template <ScalarOrEnum T>
  void put(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
  }

  // The bytes alone: the reader has to know how many there are.
  void put_bytes(std::string_view bytes) { bytes_.append(bytes); }

  // A u64 length, then the bytes.
  void put_string(std::string_view text) {
    put(uint64_t{text.size()});
    bytes_.append(text);
  }

  std::string& bytes() { return bytes_; }
  std::string take() { return std::exchange(bytes_, {}); }
  size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

// Reads what it was given and does not own it: the views it returns live as long as those bytes. Used by one thread
// at a time.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <ScalarOrEnum T>
  T take() {
    if constexpr (std::is_enum_v<T>) {
      // A value that the enum does not name is kept: which ones make sense, only its user knows.
      return static_cast<T>(take<std::underlying_type_t<T>>());
    } else if constexpr (std::same_as<T, bool>) {
      return take_bool();
    } else {
      T value;
      std::string_view raw = take_bytes(sizeof(T));
      std::memcpy(&value, raw.data(), raw.size());
      return value;
    }
  }

  std::string_view take_bytes(size_t count) {
    if (count > remaining()) {
      fail_short(count);
    }
    std::string_view taken = bytes_.substr(position_, count);
    position_ += count;
    return taken;
  }

  std::string_view take_string() { return take_bytes(take_count(1)); }

  // A u64 number of elements that follow, each of at least so many bytes (not 0). What it returns is safe to reserve.
  size_t take_count(size_t minimum_bytes_per_element);

  size_t remaining() const { return bytes_.size() - position_; }
  size_t position() const { return position_; }

  // Throws if anything is left; `what` says what has been read, as in "a tensor description".
  void expect_end(const char* what) const;

  // Throws a MalformedError that says `what` and the position.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  bool take_bool();
  [[noreturn]] void fail_short(size_t wanted) const;

  std::string_view bytes_;
  size_t position_ = 0;
};

}  // namespace gradwire::wire
