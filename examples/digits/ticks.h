// Where the lines of a chart's axis are.
#pragma once

#include <algorithm>
#include <cmath>

namespace digits {

// Lines at 0, step, 2 step..., `count` steps long; each is written with so many digits behind the point.
struct Ticks {
  double step;
  int count;
  int decimals;
  double last() const { return step * count; }
};

// At most `most` steps that reach `highest` (which is more than 0), each 1, 2 or 5 times a power of ten. `whole`: not
// less than 1.
inline Ticks ticks(double highest, int most, bool whole = false) {
  int power = static_cast<int>(std::floor(std::log10(highest / most)));
  if (whole) power = std::max(power, 0);
  for (;; ++power)
    for (const int digit : {1, 2, 5}) {
      // A power of ten below 1 has no exact double, but its inverse has: 2 / 10 is the double nearest to 0.2.
      const double step = power < 0 ? digit / std::pow(10, -power) : digit * std::pow(10, power);
      // What is a whole number of steps but for its rounding takes no further step.
      const int count = std::max(1, static_cast<int>(std::ceil(highest / step - 1e-9)));
      if (count <= most) return {step, count, std::max(0, -power)};
    }
}

}  // namespace digits
