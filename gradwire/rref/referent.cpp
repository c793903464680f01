#include "gradwire/rref/referent.h"

#include <utility>

namespace gradwire {

void Referent::keep(Kept kept) { settle({.kept = std::move(kept), .error = {}}); }

void Referent::fail(std::string error) { settle({.kept = {}, .error = std::move(error)}); }

void Referent::settle(Outcome outcome) {
  std::vector<std::function<void()>> waiting;
  {
    MutexLock lock(mutex_);
    if (outcome_) return;
    outcome_ = std::move(outcome);
    waiting.swap(waiting_);
  }
  for (const std::function<void()>& then : waiting) then();
}

bool Referent::ready() const {
  MutexLock lock(mutex_);
  return outcome_.has_value();
}

void Referent::when_ready(std::function<void()> then) {
  {
    MutexLock lock(mutex_);
    if (!outcome_) {
      waiting_.push_back(std::move(then));
      return;
    }
  }
  then();
}

Referent::Turn::Turn(std::shared_ptr<Referent> referent) : referent_(std::move(referent)) {
  MutexLock lock(referent_->mutex_);
  number_ = ++referent_->next_turn_;
  referent_->turns_[number_] = nullptr;
}

Referent::Turn::~Turn() {
  std::function<void()> start;
  {
    MutexLock lock(referent_->mutex_);
    referent_->turns_.erase(number_);
    if (!referent_->turns_.empty()) start = std::exchange(referent_->turns_.begin()->second, nullptr);
  }
  if (start) start();
}

void Referent::Turn::run(std::function<void()> body, std::shared_ptr<net::Runtime> runtime) {
  {
    MutexLock lock(referent_->mutex_);
    if (referent_->turns_.begin()->first != number_) {
      referent_->turns_[number_] = [body = std::move(body), runtime = std::move(runtime)] { runtime->submit(body); };
      return;
    }
  }
  body();
}

}  // namespace gradwire
