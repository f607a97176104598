#include "tools/page/fold_boxes.h"

#include <algorithm>
#include <map>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/model/model.h"
#include "tools/diff/labels.h"
#include "tools/page/layout.h"

namespace saturate {
namespace {

using nlohmann::json;

constexpr std::size_t kMostPorts = 9, kMostLabel = 30;
constexpr int kLetter = 7, kMargin = 22, kBadge = 24;

std::size_t letters(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

int width_of(const std::string& label, int more = 0) {
  return std::max(44, static_cast<int>(std::min(letters(label), kMostLabel)) * kLetter + kMargin + more);
}

}  // namespace

class FoldWriter {
 public:
  FoldWriter(FoldBoxes& into, const std::vector<Fold>& folds, const FoldView& view)
      : into_(into), folds_(folds), view_(view), base_(static_cast<int>(into.folds_.size())) {
    for (const int number : view.numbers)
      for (const int r : view.reads[number])
        if (r >= 0) readers_[r].push_back(number);
    if (!folds.empty()) whole_scope_ = scope_of(folds.back());
    labels_.reserve(folds.size());
    for (const Fold& fold : folds) labels_.push_back(label_of(fold));
  }

  int run() {
    for (std::size_t f = 0; f < folds_.size(); ++f) into_.folds_.push_back(written(folds_[f], labels_[f]));
    return base_ + static_cast<int>(folds_.size()) - 1;
  }

 private:
  int number(int node) const { return view_.numbers[node]; }

  std::string scope_of(const Fold& fold) const {
    std::vector<std::string> scopes;
    for (const int node : fold.nodes) scopes.push_back(view_.scopes[number(node)]);
    return common_scope(scopes);
  }

  // "encoder.layer.{0..11}", "MatMul, Add, ...".
  std::string label_of(const Fold& fold) const {
    if (fold.kind == Fold::Kind::kRepeats) {
      std::vector<std::string> scopes;
      for (const Fold::Part& part : fold.parts) scopes.push_back(scope_of(folds_[part.index]));
      const bool all = std::none_of(scopes.begin(), scopes.end(), [](const std::string& s) { return s.empty(); });
      const std::string folded = all ? folded_names(scopes) : "";
      return folded.empty() || folded == scopes[0] ? operators_of(folds_[fold.parts[0].index]) : shown(folded);
    }
    const std::string scope = scope_of(fold);
    const bool tells = scope.find_first_of("./") != std::string::npos && scope != whole_scope_;
    return tells ? shown(scope) : operators_of(fold);
  }

  // The most frequent ones.
  std::string operators_of(const Fold& fold) const {
    std::map<std::string, int> counts;
    for (const int node : fold.nodes) ++counts[without_domain(view_.op_types[number(node)])];
    std::vector<std::pair<int, std::string>> order;
    for (const auto& [op, count] : counts) order.emplace_back(-count, op);
    std::sort(order.begin(), order.end());
    std::vector<std::string> names;
    for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), 2); ++i) names.push_back(order[i].second);
    return fmt::format("{}{}", fmt::join(names, ", "), order.size() > 2 ? " ..." : "");
  }

  // What a fold's picture shows around its parts: by source, and by the node that gives.
  struct Ports {
    std::vector<int> from, to;  // nodes; ~word: a value from outside
    std::vector<std::vector<int>> from_parts, to_parts;
    int more_from = 0, more_to = 0;
  };

  json written(const Fold& fold, const std::string& label) {
    json parts = json::array();
    for (const Fold::Part& part : fold.parts) parts.push_back(part.is_fold ? -1 - (base_ + part.index) : number(part.index));
    json out = {{"k", static_cast<int>(fold.kind)}, {"l", view_.words.add(label)}, {"p", parts}};
    if (fold.kind == Fold::Kind::kRepeats) return out;
    std::map<int, int> part_of;  // by node number
    for (std::size_t p = 0; p < fold.parts.size(); ++p) {
      const Fold::Part& part = fold.parts[p];
      if (!part.is_fold) part_of[number(part.index)] = static_cast<int>(p);
      if (part.is_fold)
        for (const int node : folds_[part.index].nodes) part_of[number(node)] = static_cast<int>(p);
    }
    std::set<std::pair<int, int>> edges;
    const Ports ports = find_ports(fold, part_of, edges);
    out["y"] = lay_out_fold(fold, ports, edges);
    out["i"] = ports.from;
    out["o"] = ports.to;
    if (ports.more_from > 0) out["mi"] = ports.more_from;
    if (ports.more_to > 0) out["mo"] = ports.more_to;
    return out;
  }

  Ports find_ports(const Fold& fold, const std::map<int, int>& part_of, std::set<std::pair<int, int>>& edges) const {
    std::map<int, std::set<int>> from, to;
    std::vector<int> from_order, to_order;
    for (const int node : fold.nodes) {
      const int reader = number(node), part = part_of.at(reader);
      for (const int r : view_.reads[reader]) {
        const auto inner = part_of.find(r);
        if (inner != part_of.end()) {
          if (inner->second != part) edges.emplace(inner->second, part);
        } else if (!view_.is_weight(r)) {
          if (from[r].empty()) from_order.push_back(r);
          from[r].insert(part);
        }
      }
      const auto readers = readers_.find(reader);
      const bool goes = view_.given.contains(reader) ||
                        (readers != readers_.end() &&
                         std::any_of(readers->second.begin(), readers->second.end(), [&](int r) { return !part_of.contains(r); }));
      if (!goes) continue;
      to_order.push_back(reader);
      to[reader].insert(part);
    }
    Ports out;
    const auto take = [](const std::vector<int>& order, const std::map<int, std::set<int>>& parts, std::vector<int>& ports,
                         std::vector<std::vector<int>>& at, int& more) {
      for (const int value : order) {
        if (ports.size() == kMostPorts) {
          ++more;
          continue;
        }
        ports.push_back(value);
        at.emplace_back(parts.at(value).begin(), parts.at(value).end());
      }
    };
    take(from_order, from, out.from, out.from_parts, out.more_from);
    take(to_order, to, out.to, out.to_parts, out.more_to);
    return out;
  }

  std::string label_from(int source) const { return source < 0 ? view_.words.text(~source) : without_domain(view_.op_types[source]); }

  // Of where a node's value goes.
  std::string label_to(int node) const {
    if (const auto it = view_.given.find(node); it != view_.given.end()) return shown(it->second[0]);
    const auto& readers = readers_.at(node);
    return readers.size() == 1 ? without_domain(view_.op_types[readers[0]]) : fmt::format("{} readers", readers.size());
  }

  int lay_out_fold(const Fold& fold, const Ports& ports, const std::set<std::pair<int, int>>& inner) {
    std::vector<LayoutBox> boxes;
    json labels = json::array();
    const auto add = [&](LayoutBox::Kind kind, int width) { boxes.push_back({width, kind}); };
    for (const Fold::Part& part : fold.parts) {
      const bool region = !part.is_fold && view_.region[number(part.index)].get<int>() >= 0;
      add(LayoutBox::Kind::kInside, part.is_fold ? std::max(176, width_of(labels_[part.index]))
                                                 : width_of(without_domain(view_.op_types[number(part.index)]), region ? kBadge : 0));
    }
    std::vector<std::pair<int, int>> edges(inner.begin(), inner.end());
    for (std::size_t i = 0; i < ports.from.size(); ++i) {
      for (const int part : ports.from_parts[i]) edges.emplace_back(static_cast<int>(boxes.size()), part);
      labels.push_back(label_from(ports.from[i]));
      add(LayoutBox::Kind::kFrom, width_of(labels.back()));
    }
    for (std::size_t i = 0; i < ports.to.size(); ++i) {
      for (const int part : ports.to_parts[i]) edges.emplace_back(part, static_cast<int>(boxes.size()));
      labels.push_back(label_to(ports.to[i]));
      add(LayoutBox::Kind::kTo, width_of(labels.back()));
    }
    return layout_number(boxes, edges, labels);
  }

  // Equal ones stand once.
  int layout_number(const std::vector<LayoutBox>& boxes, const std::vector<std::pair<int, int>>& edges, const json& labels) {
    const Layout layout = lay_out(boxes, edges);
    json bent = json::array(), straight = json::array(), widths = json::array();
    for (const LayoutBox& box : boxes) widths.push_back(box.width);
    for (const Layout::Edge& edge : layout.edges) {
      json one = json::array({edge.from, edge.to});
      for (const int x : edge.bends) one.push_back(x);
      if (edge.bends.empty())
        straight.insert(straight.end(), one.begin(), one.end());
      else
        bent.push_back(std::move(one));
    }
    json words = json::array();
    for (const json& label : labels) words.push_back(view_.words.add(label.get<std::string>()));
    json out = {{"w", layout.width}, {"n", layout.rows}, {"x", layout.x}, {"r", layout.row},
                {"b", widths},       {"e", bent},        {"s", straight}, {"t", words}};
    const auto [it, added] = into_.layout_numbers_.try_emplace(out.dump(), static_cast<int>(into_.layouts_.size()));
    if (added) into_.layouts_.push_back(std::move(out));
    return it->second;
  }

  FoldBoxes& into_;
  const std::vector<Fold>& folds_;
  const FoldView& view_;
  int base_;
  std::unordered_map<int, std::vector<int>> readers_;
  std::string whole_scope_;  // of all nodes: it tells no fold from another
  std::vector<std::string> labels_;
};

int FoldBoxes::add(const std::vector<Fold>& folds, const FoldView& view) { return FoldWriter(*this, folds, view).run(); }

}  // namespace saturate
