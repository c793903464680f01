// The errors of Gradwire, sorted by what the caller should do about them.
//
//   try { peer.call(scale, x, 2.0).get(); }
//   catch (const gradwire::PeerGoneError& gone) { ... gone.worker() ... }
//
// Every text names the worker, the function where there is one, and what to do.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gradwire {

enum class ErrorCode {
  remote,
  timeout,
  cancelled,
  gone,
  not_found,
  invalid_argument,
  overloaded,
  authentication,
  injected,
};

std::string_view name_of(ErrorCode code);

// Immutable; may be copied to and read on any thread.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text, std::string worker = "")
      : std::runtime_error(text), code_(code), worker_(std::move(worker)) {}
  ErrorCode code() const { return code_; }
  // The worker that the error is about; empty if it is this one or none.
  const std::string& worker() const { return worker_; }

 private:
  ErrorCode code_;
  std::string worker_;
};

// The function threw at the callee. If what it threw had come from a further worker, this tells of that too: the text
// names the calls nearest to the caller and those nearest to the cause, and says how many lie between.
class RemoteError : public Error {
 public:
  struct Origin {
    ErrorCode code = ErrorCode::remote;  // of the Gradwire error that was thrown first; remote if it was another's
    std::string type;                    // "std::runtime_error": what was thrown first
    std::string text;                    // what was thrown first said
    std::vector<std::string> chain;      // the workers it came through, from where it was thrown to the one called
    std::vector<std::string> functions;  // the function that failed at each of them
  };
  RemoteError(const std::string& text, std::string worker, Origin origin)
      : Error(ErrorCode::remote, text, std::move(worker)), origin_(std::move(origin)) {}
  ErrorCode origin_code() const { return origin_.code; }
  const std::string& origin_type() const { return origin_.type; }
  const std::vector<std::string>& chain() const { return origin_.chain; }
  const Origin& origin() const { return origin_; }

 private:
  Origin origin_;
};

class CancelledError : public Error {
 public:
  explicit CancelledError(const std::string& text, std::string worker = "")
      : Error(ErrorCode::cancelled, text, std::move(worker)) {}
};

class TimeoutError : public Error {
 public:
  explicit TimeoutError(const std::string& text, std::string worker = "")
      : Error(ErrorCode::timeout, text, std::move(worker)) {}
};

// Why a peer is gone: it died, it left (said goodbye), or it was fenced (declared dead while it may live).
enum class GoneReason { died, left, fenced };

std::string_view name_of(GoneReason reason);

class PeerGoneError : public Error {
 public:
  PeerGoneError(const std::string& text, std::string worker, GoneReason reason)
      : Error(ErrorCode::gone, text, std::move(worker)), reason_(reason) {}
  GoneReason reason() const { return reason_; }

 private:
  GoneReason reason_;
};

// The owner of a reference is gone, and what it refers to with it.
class OwnerGoneError : public PeerGoneError {
 public:
  using PeerGoneError::PeerGoneError;
};

// The owner lives, and does not have what the reference refers to: whoever was to tell it of this holder, or to make
// the value, was gone before it could.
class ReferenceLostError : public Error {
 public:
  explicit ReferenceLostError(const std::string& text, std::string worker = "", GoneReason reason = GoneReason::died)
      : Error(ErrorCode::gone, text, std::move(worker)), reason_(reason) {}
  GoneReason reason() const { return reason_; }

 private:
  GoneReason reason_;
};

// No such function, worker, operator...; the text lists what exists.
class NotFoundError : public Error {
 public:
  explicit NotFoundError(const std::string& text, std::string worker = "")
      : Error(ErrorCode::not_found, text, std::move(worker)) {}
};

class InvalidArgumentError : public Error {
 public:
  explicit InvalidArgumentError(const std::string& text, std::string worker = "")
      : Error(ErrorCode::invalid_argument, text, std::move(worker)) {}
};

// A bound was reached and waiting was not wanted.
class OverloadedError : public Error {
 public:
  explicit OverloadedError(const std::string& text, std::string worker = "")
      : Error(ErrorCode::overloaded, text, std::move(worker)) {}
};

class AuthenticationError : public Error {
 public:
  explicit AuthenticationError(const std::string& text, std::string worker = "")
      : Error(ErrorCode::authentication, text, std::move(worker)) {}
};

}  // namespace gradwire
