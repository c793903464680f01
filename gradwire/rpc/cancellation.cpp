#include "gradwire/rpc/cancellation.h"

#include "gradwire/rpc/future_state.h"
#include "gradwire/rpc/surroundings.h"

namespace gradwire {

bool cancelled() {
  const std::shared_ptr<Cancellation>& cancellation = Surroundings::here().cancellation;
  return cancellation && cancellation->requested();
}

std::stop_token stop_token() {
  const std::shared_ptr<Cancellation>& cancellation = Surroundings::here().cancellation;
  return cancellation ? cancellation->token() : std::stop_token();
}

void Cancellation::request() {
  std::optional<std::stop_source> source;
  std::vector<std::weak_ptr<FutureState>> calls;
  {
    MutexLock lock(mutex_);
    if (requested_) return;
    requested_ = true;
    source = source_;
    calls.swap(calls_);
  }
  if (source) source->request_stop();
  for (const std::weak_ptr<FutureState>& weak : calls)
    if (std::shared_ptr<FutureState> call = weak.lock()) call->cancel();
}

bool Cancellation::requested() {
  MutexLock lock(mutex_);
  return requested_;
}

std::stop_token Cancellation::token() {
  MutexLock lock(mutex_);
  if (!source_) {
    source_.emplace();
    if (requested_) source_->request_stop();
  }
  return source_->get_token();
}

void Cancellation::add(const std::shared_ptr<FutureState>& call) {
  MutexLock lock(mutex_);
  if (requested_) return;
  calls_.push_back(call);
  if (calls_.size() < tidy_at_) return;
  std::erase_if(calls_, [](const std::weak_ptr<FutureState>& weak) {
    const std::shared_ptr<FutureState> made = weak.lock();
    return !made || made->done();
  });
  tidy_at_ = 16 + 2 * calls_.size();
}

}  // namespace gradwire
