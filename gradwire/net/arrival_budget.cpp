#include "gradwire/net/arrival_budget.h"

#include "gradwire/net/memory_limit.h"

namespace gradwire::net {

std::shared_ptr<ArrivalBudget> ArrivalBudget::of_process() {
  return std::make_shared<ArrivalBudget>(memory_limit() / 4 * 3);
}

bool ArrivalBudget::take(size_t bytes) {
  if (bytes > bytes_) {
    size_t none = 0;
    return oversized_.compare_exchange_strong(none, bytes);
  }
  size_t taken = taken_;
  do
    if (bytes > bytes_ - taken) return false;
  while (!taken_.compare_exchange_weak(taken, taken + bytes));
  return true;
}

void ArrivalBudget::give_back(size_t bytes) {
  if (bytes > bytes_)
    oversized_ = 0;
  else
    taken_ -= bytes;
}

}  // namespace gradwire::net
