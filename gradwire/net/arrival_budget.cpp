#include "gradwire/net/arrival_budget.h"

#include "gradwire/net/memory_limit.h"

namespace gradwire::net {

std::shared_ptr<ArrivalBudget> ArrivalBudget::half_of_memory() {
  return std::make_shared<ArrivalBudget>(memory_limit() / 2);
}

bool ArrivalBudget::take(size_t bytes) {
  size_t taken = taken_;
  do
    if (taken > 0 && (taken >= bytes_ || bytes > bytes_ - taken)) return false;
  while (!taken_.compare_exchange_weak(taken, taken + bytes));
  return true;
}

}  // namespace gradwire::net
