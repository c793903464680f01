// Bytes of messages that have been announced and are not complete.
//
// A peer announces a gigabyte in a hundred bytes, so what is announced is bounded before anything is kept for it: for
// each session, and, because a process has many sessions and one memory, for all sessions of the process together.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace gradwire::net {

// Any thread may use it.
class ArrivalBudget {
 public:
  explicit ArrivalBudget(size_t bytes) : bytes_(bytes) {}
  // For a process: three quarters of the memory that it may have.
  static std::shared_ptr<ArrivalBudget> of_process();

  // False if the bytes find no room. One message at a time may be larger than the whole budget. It does not count
  // among the others: neither keeps the other out.
  bool take(size_t bytes);
  void give_back(size_t bytes);

  size_t bytes() const { return bytes_; }
  size_t taken() const { return taken_ + oversized_; }

 private:
  const size_t bytes_;
  std::atomic<size_t> taken_ = 0;
  std::atomic<size_t> oversized_ = 0;
};

// What one message has taken of its session's budget and of its process's. Given back when this is destroyed.
class ArrivalShare {
 public:
  ArrivalShare(std::shared_ptr<ArrivalBudget> session, std::shared_ptr<ArrivalBudget> process, size_t bytes)
      : session_(std::move(session)), process_(std::move(process)), bytes_(bytes) {}
  ~ArrivalShare() {
    session_->give_back(bytes_);
    process_->give_back(bytes_);
  }
  ArrivalShare(const ArrivalShare&) = delete;
  ArrivalShare& operator=(const ArrivalShare&) = delete;

 private:
  const std::shared_ptr<ArrivalBudget> session_;
  const std::shared_ptr<ArrivalBudget> process_;
  const size_t bytes_;
};

}  // namespace gradwire::net
