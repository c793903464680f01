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

std::shared_ptr<Cancellation> Cancellation::of(const std::shared_ptr<FutureState>& work,
                                               const std::shared_ptr<FutureState>& source) {
  auto made = std::make_shared<Cancellation>();
  made->part_ = true;
  // Before the parent knows of `work`: its request may come at once.
  // `work` holds this function and is alive when it runs: a plain pointer makes no circle.
  work->cancel_by([work = work.get(), source = std::weak_ptr(source), made](CancelledBy by) {
    // Others may wait for the source too. What the function that is cancelled has begun is cancelled with it anyway.
    const std::shared_ptr<FutureState> waited_for = by == CancelledBy::its_owner ? source.lock() : nullptr;
    if (waited_for) waited_for->cancel();
    // The error of a call names the function and the worker.
    if (!waited_for || !waited_for->done() || !work->fails_with(*waited_for))
      work->fail(std::make_exception_ptr(
          CancelledError("a Task or continuation was cancelled: cancel() was called on its future, or the function "
                         "that began it was cancelled")));
    made->request();
  });
  if (const std::shared_ptr<Cancellation>& parent = Surroundings::here().cancellation) {
    made->function_ = of_function(parent);
    made->began_cancelled_ = !parent->add(work) || parent->began_cancelled_;
  }
  return made;
}

std::shared_ptr<Cancellation> Cancellation::of_function(const std::shared_ptr<Cancellation>& here) {
  return here && here->part_ ? here->function_.lock() : here;
}

void Cancellation::request() {
  std::optional<std::stop_source> source;
  std::vector<std::weak_ptr<FutureState>> under_way;
  {
    MutexLock lock(mutex_);
    if (requested_) return;
    requested_ = true;
    source = source_;
    under_way.swap(under_way_);
  }
  if (source) source->request_stop();
  for (const std::weak_ptr<FutureState>& weak : under_way)
    if (std::shared_ptr<FutureState> work = weak.lock()) work->cancel(CancelledBy::its_function);
}

bool Cancellation::requested() {
  if (began_cancelled_) return true;
  MutexLock lock(mutex_);
  return requested_;
}

std::stop_token Cancellation::token() {
  MutexLock lock(mutex_);
  if (!source_) {
    source_.emplace();
    if (requested_ || began_cancelled_) source_->request_stop();
  }
  return source_->get_token();
}

bool Cancellation::add(const std::shared_ptr<FutureState>& work) {
  // Let go without the lock: the last reference to a future may be among them, and its value may do anything.
  std::vector<std::shared_ptr<FutureState>> looked_at;
  MutexLock lock(mutex_);
  if (requested_) return false;
  under_way_.push_back(work);
  if (under_way_.size() < tidy_at_) return true;
  looked_at.reserve(under_way_.size());
  std::erase_if(under_way_, [&looked_at](const std::weak_ptr<FutureState>& weak) {
    const std::shared_ptr<FutureState>& begun = looked_at.emplace_back(weak.lock());
    return !begun || begun->done();
  });
  tidy_at_ = 16 + 2 * under_way_.size();
  return true;
}

}  // namespace gradwire
