#include "chart.h"

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <stdexcept>

#include "ticks.h"

namespace digits {

void draw(const std::string& path, const std::string& title, const std::vector<Curve>& curves) {
  constexpr double left = 60, top = 50, across = 640, down = 300;
  double highest = 0;
  size_t longest = 2;
  for (const Curve& curve : curves) {
    longest = std::max(longest, curve.values.size());
    for (double value : curve.values) highest = std::max(highest, value);
  }
  highest = std::max(highest, 1e-9);
  const Ticks values = ticks(highest, 5);
  const Ticks steps = ticks(static_cast<double>(longest - 1), 8, true);
  const auto x = [&](double step) { return left + across * step / static_cast<double>(longest - 1); };
  const auto y = [&](double value) { return top + down * (1 - value / values.last()); };

  std::ofstream file(path);
  file << std::fixed << std::setprecision(1);
  file << R"(<svg xmlns="http://www.w3.org/2000/svg" width="740" height="410" font-family="sans-serif" font-size="13">)"
       << R"(<rect width="100%" height="100%" fill="white"/>)"
       << "<text x='" << left << "' y='26' font-size='16'>" << title << "</text>\n";
  for (int line = 0; line <= values.count; ++line) {
    const double value = values.step * line;
    file << "<line x1='" << left << "' x2='" << left + across << "' y1='" << y(value) << "' y2='" << y(value)
         << "' stroke='#ddd'/><text x='" << left - 8 << "' y='" << y(value) + 4 << "' text-anchor='end'>"
         << std::setprecision(values.decimals) << value << std::setprecision(1) << "</text>\n";
  }
  // The last line of this axis may lie beyond the curves.
  for (double step = 0; step < static_cast<double>(longest); step += steps.step)
    file << "<text x='" << x(step) << "' y='" << top + down + 20 << "' text-anchor='middle'>" << std::setprecision(0)
         << step << std::setprecision(1) << "</text>\n";
  file << "<text x='" << left + across / 2 << "' y='" << top + down + 42 << "' text-anchor='middle'>step</text>\n";
  double legend = left + across - 230;
  for (const Curve& curve : curves) {
    const std::string dashes = curve.dashed ? " stroke-dasharray='6 5'" : "";
    file << "<polyline fill='none' stroke-width='1.6' stroke='" << curve.colour << "'" << dashes << " points='";
    for (size_t step = 0; step < curve.values.size(); ++step)
      file << x(static_cast<double>(step)) << ',' << y(curve.values[step]) << ' ';
    file << "'/>\n<line x1='" << legend << "' x2='" << legend + 24 << "' y1='40' y2='40' stroke-width='2' stroke='"
         << curve.colour << "'" << dashes << "/><text x='" << legend + 30 << "' y='44'>" << curve.name << "</text>\n";
    legend += 125;
  }
  file << "</svg>\n";
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace digits
