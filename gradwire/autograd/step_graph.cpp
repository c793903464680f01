#include "gradwire/autograd/step_graph.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace gradwire::autograd {
namespace {

// All nodes of all parts, numbered on.
struct Whole {
  struct Edge {
    size_t from = 0;
    size_t to = 0;
    bool is_hop = false;
  };
  std::vector<const GraphPart::Node*> nodes;
  std::vector<size_t> part_of;
  std::vector<Edge> edges;

  explicit Whole(const std::vector<GraphPart>& parts) {
    std::map<std::pair<uint64_t, uint64_t>, size_t> sends;
    std::map<std::pair<uint64_t, uint64_t>, size_t> receipts;
    for (size_t part = 0; part < parts.size(); ++part) {
      const size_t first = nodes.size();
      for (const GraphPart::Node& node : parts[part].nodes) {
        if (node.is_send) sends[{node.hop_maker, node.hop}] = nodes.size();
        if (node.is_recv) receipts[{node.hop_maker, node.hop}] = nodes.size();
        nodes.push_back(&node);
        part_of.push_back(part);
      }
      for (const GraphPart::Edge& edge : parts[part].edges) edges.push_back({first + edge.from, first + edge.to});
    }
    for (const auto& [hop, received] : receipts)
      if (auto sent = sends.find(hop); sent != sends.end()) edges.push_back({received, sent->second, true});
  }

  // One below the lowest of those whose gradients it takes.
  std::vector<size_t> rows() const {
    std::vector<size_t> row(nodes.size(), 0);
    std::vector<size_t> missing(nodes.size(), 0);
    std::vector<std::vector<size_t>> next(nodes.size());
    for (const Edge& edge : edges) {
      ++missing[edge.to];
      next[edge.from].push_back(edge.to);
    }
    std::vector<size_t> ready;
    for (size_t node = 0; node < nodes.size(); ++node)
      if (missing[node] == 0) ready.push_back(node);
    while (!ready.empty()) {
      const size_t node = ready.back();
      ready.pop_back();
      for (const size_t after : next[node]) {
        row[after] = std::max(row[after], row[node] + 1);
        if (--missing[after] == 0) ready.push_back(after);
      }
    }
    return row;
  }
};

std::string label(const GraphPart::Node& node) {
  if (node.is_send) return "sent";
  if (node.is_recv) return "received";
  return node.name;
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '&')
      safe += "&amp;";
    else
      safe += c;
  }
  return safe;
}

constexpr double box_width = 132;
constexpr double box_height = 24;
constexpr double gap = 14;
constexpr double row_height = 54;
constexpr double header = 40;

}  // namespace

std::string StepGraph::dot() const {
  const Whole whole(parts);
  std::string text = "digraph step {\n  rankdir=TB; node [shape=box, fontname=\"sans-serif\"];\n";
  size_t node = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    text += fmt::format("  subgraph cluster_{} {{\n    label=\"{}\";\n", part, parts[part].worker);
    for (const GraphPart::Node& each : parts[part].nodes)
      text += fmt::format("    n{} [label=\"{}\"{}];\n", node++, label(each), each.is_leaf ? ", style=filled" : "");
    text += "  }\n";
  }
  for (const Whole::Edge& edge : whole.edges)
    text += fmt::format("  n{} -> n{}{};\n", edge.from, edge.to, edge.is_hop ? " [style=dashed, color=red]" : "");
  return text + "}\n";
}

std::string StepGraph::svg() const {
  const Whole whole(parts);
  const std::vector<size_t> rows = whole.rows();
  // Side by side where a lane has several in a row.
  std::vector<size_t> column(whole.nodes.size(), 0);
  std::vector<size_t> widest(parts.size(), 1);
  std::map<std::pair<size_t, size_t>, size_t> filled;
  size_t lowest = 0;
  for (size_t node = 0; node < whole.nodes.size(); ++node) {
    const size_t part = whole.part_of[node];
    column[node] = filled[{part, rows[node]}]++;
    widest[part] = std::max(widest[part], column[node] + 1);
    lowest = std::max(lowest, rows[node]);
  }
  std::vector<double> lane(parts.size() + 1, gap);
  for (size_t part = 0; part < parts.size(); ++part)
    lane[part + 1] = lane[part] + static_cast<double>(widest[part]) * (box_width + gap) + 2 * gap;
  const double height = header + static_cast<double>(lowest + 1) * row_height + gap;
  const auto left = [&](size_t node) {
    return lane[whole.part_of[node]] + gap + static_cast<double>(column[node]) * (box_width + gap);
  };
  const auto top = [&](size_t node) { return header + static_cast<double>(rows[node]) * row_height; };

  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n"
      "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" "
      "orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\"context-stroke\"/></marker></defs>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      lane.back(), height);
  for (size_t part = 0; part < parts.size(); ++part)
    text += fmt::format(
        "<rect x=\"{:.0f}\" y=\"4\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"6\" fill=\"{}\"/>"
        "<text x=\"{:.0f}\" y=\"22\" font-weight=\"bold\" font-size=\"13\">{}</text>\n",
        lane[part], lane[part + 1] - lane[part] - gap, height - 8, part % 2 == 0 ? "#eef3fa" : "#f6f1ea",
        lane[part] + gap, escaped(parts[part].worker));
  for (const Whole::Edge& edge : whole.edges)
    text += fmt::format(
        "<line x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\" stroke=\"{}\" {}marker-end=\"url(#arrow)\"/>\n",
        left(edge.from) + box_width / 2, top(edge.from) + box_height, left(edge.to) + box_width / 2, top(edge.to),
        edge.is_hop ? "#c0392b" : "#555", edge.is_hop ? "stroke-width=\"2\" stroke-dasharray=\"6 3\" " : "");
  for (size_t node = 0; node < whole.nodes.size(); ++node) {
    const GraphPart::Node& each = *whole.nodes[node];
    const char* fill = each.is_leaf ? "#d5f0d5" : each.is_send || each.is_recv ? "#fbe0dc" : "white";
    text += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"4\" fill=\"{}\" stroke=\"#555\"/>"
        "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
        left(node), top(node), box_width, box_height, fill, left(node) + box_width / 2, top(node) + 16,
        escaped(label(each)));
  }
  return text + "</svg>\n";
}

}  // namespace gradwire::autograd
