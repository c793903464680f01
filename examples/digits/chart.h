// A picture of curves over steps.
#pragma once

#include <string>
#include <vector>

namespace digits {

struct Curve {
  std::string name;
  std::string colour;
  std::vector<double> values;
  bool dashed = false;
};

// An SVG file.
void draw(const std::string& path, const std::string& title, const std::vector<Curve>& curves);

}  // namespace digits
