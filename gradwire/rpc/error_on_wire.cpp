#include "gradwire/rpc/error_on_wire.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <c10/util/Exception.h>
#include <fmt/format.h>

namespace gradwire {
namespace {

constexpr size_t longest_text = 8192;
// Of many nested calls the text names so many at each end.
constexpr size_t calls_named_at_each_end = 3;

enum class Kind : uint8_t { thrown = 0, refused = 1 };

std::string type_of_current_exception() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "unknown";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(type->name(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? name.get() : type->name();
}

std::string shortened(std::string text) {
  if (text.size() <= longest_text) return text;
  const size_t half = longest_text / 2;
  return fmt::format("{} [... {} characters left out ...] {}", text.substr(0, half), text.size() - 2 * half,
                     text.substr(text.size() - half));
}

// From the call that the reader made to the cause.
std::string describe(const RemoteError::Origin& origin) {
  const size_t calls = origin.chain.size();
  const size_t named = 2 * calls_named_at_each_end;
  std::string text;
  for (size_t i = 0; i < calls; ++i) {
    if (calls > named + 1 && i == calls_named_at_each_end) {
      text += fmt::format("[... {} calls between ...] ", calls - named);
      i = calls - calls_named_at_each_end;
    }
    const size_t at = calls - 1 - i;
    text += fmt::format("\"{}\" failed at {}: ", origin.functions[at], origin.chain[at]);
  }
  return fmt::format("{}{}: {}", text, origin.type, origin.text);
}

}  // namespace

std::string encode_thrown(const std::exception_ptr& error, const std::string& worker, const std::string& function) {
  RemoteError::Origin origin;
  std::string text;
  try {
    std::rethrow_exception(error);
  } catch (const RemoteError& remote) {
    origin = remote.origin();
    origin.functions.resize(origin.chain.size());
    text = remote.what();
  } catch (const Error& own) {
    origin.code = own.code();
    origin.type = type_of_current_exception();
    text = own.what();
  } catch (const c10::Error& own) {
    // Its backtrace is of no use to the caller.
    origin.type = type_of_current_exception();
    text = own.what_without_backtrace();
  } catch (const std::exception& other) {
    origin.type = type_of_current_exception();
    text = other.what();
  } catch (...) {
    origin.type = type_of_current_exception();
    text = "it is not a std::exception";
  }
  if (origin.chain.empty()) origin.text = shortened(std::move(text));
  origin.chain.push_back(worker);
  origin.functions.push_back(function);
  wire::ByteWriter writer;
  writer.put(static_cast<uint8_t>(Kind::thrown));
  writer.put(static_cast<uint8_t>(origin.code));
  writer.put_string(origin.type);
  writer.put_string(origin.text);
  writer.put(static_cast<uint32_t>(origin.chain.size()));
  for (size_t i = 0; i < origin.chain.size(); ++i) {
    writer.put_string(origin.chain[i]);
    writer.put_string(origin.functions[i]);
  }
  return writer.take();
}

std::string encode_refusal(const Error& error, const std::string& worker, const std::string& function) {
  wire::ByteWriter writer;
  writer.put(static_cast<uint8_t>(Kind::refused));
  writer.put(static_cast<uint8_t>(error.code()));
  writer.put_string(fmt::format("{} refuses the call of \"{}\": {}", worker, function, error.what()));
  return writer.take();
}

std::exception_ptr decode_error(std::string_view bytes, const std::string& worker) {
  wire::ByteReader reader(bytes);
  const auto kind = Kind{reader.take<uint8_t>()};
  const auto code = ErrorCode{reader.take<uint8_t>()};
  if (code > ErrorCode::injected) throw wire::MalformedError("error of an unknown code");
  if (kind == Kind::refused) {
    const std::string text(reader.take_string());
    reader.expect_end("an error");
    switch (code) {
      case ErrorCode::not_found:
        return std::make_exception_ptr(NotFoundError(text, worker));
      case ErrorCode::overloaded:
        return std::make_exception_ptr(OverloadedError(text, worker));
      case ErrorCode::cancelled:
        return std::make_exception_ptr(CancelledError(text, worker));
      case ErrorCode::timeout:
        return std::make_exception_ptr(TimeoutError(text, worker));
      // The only ones that are refused because someone is gone.
      case ErrorCode::gone:
        return std::make_exception_ptr(ReferenceLostError(text, worker));
      case ErrorCode::invalid_argument:
        return std::make_exception_ptr(InvalidArgumentError(text, worker));
      default:
        return std::make_exception_ptr(Error(code, text, worker));
    }
  }
  if (kind != Kind::thrown) throw wire::MalformedError("error of an unknown kind");
  RemoteError::Origin origin;
  origin.code = code;
  origin.type = reader.take_string();
  origin.text = reader.take_string();
  const auto count = reader.take<uint32_t>();
  if (count > reader.remaining()) throw wire::MalformedError("error with a chain longer than it is");
  for (uint32_t i = 0; i < count; ++i) {
    origin.chain.emplace_back(reader.take_string());
    origin.functions.emplace_back(reader.take_string());
  }
  reader.expect_end("an error");
  const std::string text = describe(origin);
  return std::make_exception_ptr(RemoteError(text, worker, std::move(origin)));
}

}  // namespace gradwire
