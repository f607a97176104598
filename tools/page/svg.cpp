#include "tools/page/svg.h"

#include <algorithm>
#include <map>
#include <set>

#include "fmt/format.h"
#include "tools/page/layout.h"
#include "tools/page/side.h"
#include "tools/page/words.h"

namespace saturate {
namespace {

constexpr int kRowHeight = 50, kBoxHeight = 28, kAround = 12, kBetween = 48, kLetterWidth = 7;
constexpr std::size_t kMostValue = 18, kMostOperator = 30;

std::string for_xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

// Of a long name the end tells more.
std::string cut_value(const std::string& name) {
  const std::string text = shown(name);
  if (text.size() <= kMostValue) return text;
  std::size_t from = text.size() - (kMostValue - 3);
  while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80) ++from;
  return "..." + text.substr(from);
}

struct DrawnBox {
  std::string label;
  LayoutBox::Kind kind = LayoutBox::Kind::kInside;
  int width() const { return std::max(34, kLetterWidth * static_cast<int>(label.size()) + 18); }
};

// One side of a region: its nodes, the values that it reads, and those that it gives.
class RegionDrawing {
 public:
  RegionDrawing(const Graph& graph, const std::vector<std::size_t>& nodes, const std::vector<std::string>& outputs,
                const std::set<std::string>& weights, bool is_new)
      : new_(is_new) {
    std::map<std::string, int> made, read;
    for (const std::size_t i : nodes) {
      const Node& node = graph.nodes[i];
      if (weights.contains(first_output(node))) continue;
      const int box = add(shown(node.op_type).substr(0, kMostOperator), LayoutBox::Kind::kInside);
      for (const std::string& input : node.inputs) {
        if (input.empty() || weights.contains(input)) continue;
        const auto maker = made.find(input);
        if (maker == made.end() && !read.contains(input)) read[input] = add(cut_value(input), LayoutBox::Kind::kFrom);
        edges_.emplace_back(maker != made.end() ? maker->second : read[input], box);
      }
      for (const std::string& output : node.outputs)
        if (!output.empty()) made[output] = box;
    }
    for (const std::string& output : outputs)
      if (const auto maker = made.find(output); maker != made.end())
        edges_.emplace_back(maker->second, add(cut_value(output), LayoutBox::Kind::kTo));
    std::vector<LayoutBox> boxes;
    for (const DrawnBox& box : boxes_) boxes.push_back({box.width(), box.kind});
    layout_ = lay_out(boxes, edges_);
  }

  int width() const { return layout_.width; }
  int height() const { return kBoxHeight + kRowHeight * std::max(0, layout_.rows - 1); }

  std::string elements() const {
    std::string out;
    const auto y = [](int row) { return kBoxHeight / 2 + kRowHeight * row; };
    for (const Layout::Edge& edge : layout_.edges) {
      std::vector<std::pair<int, int>> points{{layout_.x[edge.from], y(layout_.row[edge.from]) + kBoxHeight / 2}};
      for (std::size_t i = 0; i < edge.bends.size(); ++i)
        points.emplace_back(edge.bends[i], y(layout_.row[edge.from] + 1 + static_cast<int>(i)));
      points.emplace_back(layout_.x[edge.to], y(layout_.row[edge.to]) - kBoxHeight / 2);
      out += fmt::format("<path d=\"M{} {}", points[0].first, points[0].second);
      for (std::size_t i = 1; i < points.size(); ++i) {
        const int middle = (points[i - 1].second + points[i].second) / 2;
        out += fmt::format("C{} {} {} {} {} {}", points[i - 1].first, middle, points[i].first, middle, points[i].first, points[i].second);
      }
      out += "\" fill=\"none\" stroke=\"#8a94a0\"/>";
    }
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      const bool inside = boxes_[i].kind == LayoutBox::Kind::kInside;
      const int width = boxes_[i].width();
      out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" fill=\"{}\" stroke=\"{}\"/>",
                         layout_.x[i] - width / 2, y(layout_.row[i]) - kBoxHeight / 2, width, kBoxHeight, inside ? 5 : kBoxHeight / 2,
                         !inside ? "#eef1f4"
                         : new_  ? "#d3efd9"
                                 : "#f8ddd6",
                         !inside ? "#9aa5b1"
                         : new_  ? "#2e8b57"
                                 : "#c0603f");
      out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>", layout_.x[i], y(layout_.row[i]) + 4,
                         for_xml(boxes_[i].label));
    }
    return out;
  }

 private:
  int add(const std::string& label, LayoutBox::Kind kind) {
    boxes_.push_back({label, kind});
    return static_cast<int>(boxes_.size()) - 1;
  }

  bool new_;
  std::vector<DrawnBox> boxes_;
  std::vector<std::pair<int, int>> edges_;
  Layout layout_;
};

std::set<std::string> weight_names(const std::vector<const Graph*>& graphs) {
  std::set<std::string> out;
  for (const Graph* graph : graphs) {
    for (const Initializer& weight : graph->initializers) out.insert(weight.name);
    for (const Node& node : graph->nodes)
      if (node.domain.empty() && node.op_type == "Constant") out.insert(first_output(node));
  }
  return out;
}

}  // namespace

std::vector<std::string> change_pictures(const Model& first, const Model& second, const ModelDiff& diff) {
  const std::vector<const Graph*> graphs[2] = {compared_graphs(first, diff, 0), compared_graphs(second, diff, 1)};
  const std::set<std::string> weights[2] = {weight_names(graphs[0]), weight_names(graphs[1])};
  std::vector<std::string> out;
  for (const DiffGroup& group : diff.groups) {
    const DiffRegion& region = diff.regions[group.regions[0]];
    std::vector<RegionDrawing> sides;
    for (int side : {0, 1}) sides.emplace_back(*graphs[side][region.graph], region.nodes[side], region.outputs, weights[side], side == 1);
    const int tall = std::max(sides[0].height(), sides[1].height()), wide = sides[0].width() + kBetween + sides[1].width() + 2 * kAround;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
        "font-size=\"12\" role=\"img\"><title>{2}</title><rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#ffffff\"/><g "
        "fill=\"#1d2733\">",
        wide, tall + 2 * kAround, for_xml(shown(group.label)));
    int at = kAround;
    for (int side : {0, 1}) {
      svg +=
          fmt::format("<g transform=\"translate({} {})\">{}</g>", at, kAround + (tall - sides[side].height()) / 2, sides[side].elements());
      at += sides[side].width();
      if (side == 0)
        svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-size=\"18\">\u2192</text>", at + kBetween / 2,
                           kAround + tall / 2 + 6);
      at += kBetween;
    }
    out.push_back(svg + "</g></svg>\n");
  }
  return out;
}

}  // namespace saturate
