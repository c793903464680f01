// The picture of a step's graph.
#include "gradwire/autograd/step_graph.h"

#include <regex>

#include <gtest/gtest.h>

namespace gradwire::autograd {
namespace {

struct Box {
  double left;
  double right;
};

// The boxes whose rectangles have these corners.
std::vector<Box> boxes(const std::string& svg, const std::string& corners) {
  const std::regex form(R"re(<rect x="(-?\d+)" y="\d+" width="(-?\d+)" height="\d+" rx=")re" + corners + "\"");
  std::vector<Box> all;
  for (std::sregex_iterator match(svg.begin(), svg.end(), form), end; match != end; ++match) {
    const double left = std::stod((*match)[1]);
    all.push_back({left, left + std::stod((*match)[2])});
  }
  return all;
}

TEST(StepGraph, LanesLieSideBySideWithinThePictureAndNodesWithinTheirLane) {
  StepGraph graph;
  for (const size_t width : {3, 1, 2}) {
    GraphPart& part = graph.parts.emplace_back();
    part.worker = "worker" + std::to_string(graph.parts.size());
    for (size_t i = 0; i < width; ++i) part.nodes.push_back({.name = "Mul"});  // without an edge: all in one row
  }
  const std::string svg = graph.svg();
  std::smatch size;
  ASSERT_TRUE(std::regex_search(svg, size, std::regex(R"re(<svg [^>]*width="(\d+)")re")));
  const std::vector<Box> lanes = boxes(svg, "6");
  const std::vector<Box> nodes = boxes(svg, "4");
  ASSERT_EQ(lanes.size(), 3U);
  ASSERT_EQ(nodes.size(), 6U);
  double free_from = 0;
  size_t node = 0;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    EXPECT_GE(lanes[lane].left, free_from) << "lane " << lane;
    double node_free_from = lanes[lane].left;
    for (size_t end = node + graph.parts[lane].nodes.size(); node < end; ++node) {
      EXPECT_GE(nodes[node].left, node_free_from) << "node " << node;
      EXPECT_GT(nodes[node].right, nodes[node].left) << "node " << node;
      EXPECT_LE(nodes[node].right, lanes[lane].right) << "node " << node;
      node_free_from = nodes[node].right;
    }
    free_from = lanes[lane].right;
  }
  EXPECT_LE(free_from, std::stod(size[1]));
}

}  // namespace
}  // namespace gradwire::autograd
