#include <algorithm>
#include <map>
#include <set>

#include "extract/optimize/prediction.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "tools/diff/diff.h"
#include "tools/diff/labels.h"
#include "tools/io/table.h"

namespace saturate {
namespace {

using nlohmann::json;

constexpr std::size_t kMostLines = 40, kMostNames = 4, kMostWidth = 160;

std::string list_of(const std::vector<std::string>& names) {
  std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostNames)));
  return fmt::format("{}{}", fmt::join(first, ", "),
                     names.size() > kMostNames ? fmt::format(" and {} more", names.size() - kMostNames) : "");
}

std::string cut(std::string line) {
  if (line.size() > kMostWidth) line = line.substr(0, kMostWidth - 3) + "...";
  return line;
}

// "MatMul x3  Attention(q_num_heads 12)": by operator, in the order in which they first stand; attributes where all have the same.
std::string operators_of(const std::vector<DiffNode>& nodes, bool with_attributes) {
  std::vector<std::pair<std::string, std::vector<const DiffNode*>>> kinds;
  for (const DiffNode& node : nodes) {
    auto it = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == node.op_type; });
    if (it == kinds.end()) it = kinds.insert(kinds.end(), {node.op_type, {}});
    it->second.push_back(&node);
  }
  std::vector<std::string> out;
  for (const auto& [op_type, all] : kinds) {
    const bool alike = std::all_of(all.begin(), all.end(), [&](const DiffNode* n) { return n->attributes == all[0]->attributes; });
    std::string text = op_type;
    if (with_attributes && alike && !all[0]->attributes.empty()) text += fmt::format("({})", all[0]->attributes);
    if (all.size() > 1) text += fmt::format(" x{}", all.size());
    out.push_back(std::move(text));
  }
  return fmt::format("{}", fmt::join(out, "  "));
}

double cost_of(const std::vector<DiffNode>& nodes) {
  double sum = 0;
  for (const DiffNode& node : nodes) sum += node.cost;
  return sum;
}

class Text {
 public:
  Text(const ModelDiff& diff, bool all) : diff_(diff), all_(all) {}

  std::string run(const std::string& first, const std::string& second) {
    lines_.push_back(fmt::format("{} -> {}   {} -> {} operators, {} of them equal", first, second, diff_.nodes[0], diff_.nodes[1],
                                 diff_.equal_nodes[1]));
    if (diff_.predicted) lines_.push_back(cut(predicted_text(*diff_.predicted)));
    if (diff_.equal()) lines_.push_back("no difference");
    if (!diff_.proven)
      lines_.push_back(cut(fmt::format("matched by structure only, for the models could not be run: {}", diff_.why_not_proven)));
    section("", diff_.interface);
    section("opsets: ", diff_.imports);
    section("function ", diff_.functions);
    section("type of ", diff_.types, 1);
    weights();
    groups();
    std::string out;
    for (const std::string& line : lines_) out += line + "\n";
    return out;
  }

 private:
  void section(const std::string& what, const std::vector<std::string>& lines, std::size_t most = kMostNames) {
    const std::size_t shown = all_ ? lines.size() : std::min(lines.size(), most);
    for (std::size_t i = 0; i < shown; ++i) {
      const bool last = i + 1 == shown && shown < lines.size();
      lines_.push_back(cut(what + lines[i]) + (last ? fmt::format(" and {} more", lines.size() - shown) : ""));
    }
  }

  void weights() {
    const DiffWeights& w = diff_.weights;
    if (!w.changed.empty()) lines_.push_back(cut(fmt::format("weights changed: {}: {}", w.changed.size(), list_of(w.changed))));
    if (w.removed.empty() && w.added.empty()) return;
    lines_.push_back(
        cut(fmt::format("weights: {} equal, {} gone ({}), {} new ({}{})", w.equal, w.removed.size(), human_bytes(w.removed_bytes),
                        w.added.size(), human_bytes(w.added_bytes), w.added.empty() ? "" : ": " + list_of(w.added))));
  }

  void groups() {
    for (std::size_t g = 0; g < diff_.groups.size(); ++g) {
      const std::vector<std::string> lines = group_lines(diff_.groups[g]);
      const bool last = g + 1 == diff_.groups.size();
      if (!all_ && lines_.size() + lines.size() + (last ? 0 : 1) > kMostLines) {
        rest(g);
        return;
      }
      lines_.insert(lines_.end(), lines.begin(), lines.end());
    }
  }

  void rest(std::size_t from) {
    std::size_t regions = 0, before = 0, after = 0;
    for (std::size_t g = from; g < diff_.groups.size(); ++g)
      for (const std::size_t r : diff_.groups[g].regions) {
        ++regions;
        before += diff_.regions[r].before.size();
        after += diff_.regions[r].after.size();
      }
    lines_.push_back(fmt::format("... and {} more regions, {} -> {} operators (-v shows them)", regions, before, after));
  }

  std::vector<std::string> group_lines(const DiffGroup& group) const {
    const DiffRegion& one = diff_.regions[group.regions[0]];
    double before = 0, after = 0;
    for (const std::size_t r : group.regions) before += cost_of(diff_.regions[r].before), after += cost_of(diff_.regions[r].after);
    std::string head = "@@ " + group.label;
    if (!one.where.empty()) head += fmt::format("   in {}", one.where);
    if (group.regions.size() > 1) head += fmt::format("   {} alike", group.regions.size());
    if (one.shared) head += "   shared by several regions";
    if (one.unproven && diff_.proven) head += "   VALUES DIFFER";
    const std::string removed = operators_of(one.before, one.before.size() <= 2), added = operators_of(one.after, true);
    std::string cost;
    if (diff_.predicted && diff_.predicted->unit != "operators" && before + after > 0) {
      const auto [was, is] = cost_texts(before, after, diff_.predicted->unit);
      cost = fmt::format("   {} -> {}", was, is);
    }
    const std::string why = one.why.empty() ? "" : fmt::format("   why  {}", fmt::join(one.why, " -> "));
    constexpr std::size_t kSmall = 4;
    if (one.before.size() + one.after.size() <= kSmall && why.empty())
      return {
          cut(fmt::format("{}   {}{}{}{}", head, removed.empty() ? "nothing" : removed, " -> ", added.empty() ? "nothing" : added, cost))};
    std::vector<std::string> out{cut(fmt::format("{}   {} -> {} operators{}", head, one.before.size(), one.after.size(), cost))};
    if (!removed.empty()) out.push_back(cut("-  " + removed));
    if (!added.empty()) out.push_back(cut("+  " + added));
    if (!why.empty()) out.push_back(cut(why));
    return out;
  }

  const ModelDiff& diff_;
  bool all_;
  std::vector<std::string> lines_;
};

json nodes_json(const std::vector<DiffNode>& nodes) {
  json out = json::array();
  for (const DiffNode& n : nodes)
    out.push_back({{"op_type", n.op_type}, {"name", n.name}, {"output", n.output}, {"attributes", n.attributes}, {"cost", n.cost}});
  return out;
}

}  // namespace

std::string format_diff(const ModelDiff& diff, const std::string& first, const std::string& second, bool all) {
  return Text(diff, all).run(first, second);
}

json to_json(const ModelDiff& diff) {
  json regions = json::array(), groups = json::array();
  for (const DiffRegion& r : diff.regions)
    regions.push_back({{"graph", r.where},
                       {"scope", r.scope},
                       {"outputs", r.outputs},
                       {"shared", r.shared},
                       {"values_differ", r.unproven},
                       {"before", nodes_json(r.before)},
                       {"after", nodes_json(r.after)},
                       {"inside_before", r.inside[0]},
                       {"inside_after", r.inside[1]},
                       {"cost_before", cost_of(r.before)},
                       {"cost_after", cost_of(r.after)},
                       {"rules", r.why}});
  for (const DiffGroup& g : diff.groups) groups.push_back({{"label", g.label}, {"regions", g.regions}});
  const DiffWeights& w = diff.weights;
  return {{"equal", diff.equal()},
          {"nodes_before", diff.nodes[0]},
          {"nodes_after", diff.nodes[1]},
          {"equal_nodes_before", diff.equal_nodes[0]},
          {"equal_nodes_after", diff.equal_nodes[1]},
          {"cost_model", diff.predicted ? json(diff.predicted->cost_model) : json("")},
          {"cost_unit", diff.predicted ? json(diff.predicted->unit) : json("")},
          {"cost_before", diff.predicted ? diff.predicted->before : 0},
          {"cost_after", diff.predicted ? diff.predicted->after : 0},
          {"predicted", diff.predicted ? json(predicted_text(*diff.predicted)) : json(nullptr)},
          {"proven", diff.proven},
          {"runtime", diff.runtime.empty() ? json("saturate") : json(diff.runtime)},
          {"why_not_proven", diff.why_not_proven},
          {"interface", diff.interface},
          {"imports", diff.imports},
          {"functions", diff.functions},
          {"types", diff.types},
          {"weights",
           {{"equal", w.equal},
            {"changed", w.changed},
            {"removed", w.removed},
            {"added", w.added},
            {"removed_bytes", w.removed_bytes},
            {"added_bytes", w.added_bytes}}},
          {"regions", regions},
          {"groups", groups}};
}

}  // namespace saturate
