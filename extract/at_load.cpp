// What a choice becomes when the runtime loads it (AtLoad in extract/onnx_problem.h).
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "extract/onnx_problem.h"
#include "extract/sizes/op_features.h"
#include "extract/sizes/op_sizes.h"
#include "extract/target/load_fusions.h"
#include "extract/target/load_pattern.h"

namespace saturate {
namespace {

class Loaded {
 public:
  Loaded(const OnnxEGraph& g, const OnnxProblem& p, const NodeChoice& choice)
      : g_(g), p_(p), choice_(spelled_out(p, choice).value_or(needed_only(p.plain, choice))), class_of_(p.plain.class_of_node()) {
    for (std::uint32_t c = 0; c < p.class_id.size(); ++c) computed_.push_back(choice_[c] != kUnchosen && is_computed(c));
    count_readers();
    fuse();
  }

  // The classes that run, each with its node.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> run() const {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> out;
    for (const std::uint32_t c : needed()) out.emplace_back(c, choice_[c]);
    return out;
  }

 private:
  // The runtime computes what hangs on constants and on sizes that are known, but keeps weights quantized.
  bool is_computed(std::uint32_t c) const {
    if (c >= p_.class_id.size()) return false;
    const NodeId n = p_.node_id[choice_[c]];
    if (n == kNone) return true;
    const Facts& f = g_.facts(p_.class_id[c]);
    const OpKey& key = g_.key(g_.egraph().node(n).op);
    if (key.domain == "#" || key.role != UnitRole::kNone || stays_quantized(key)) return false;
    const auto is_number = [&](Dim d) { return g_.dims().value(d).has_value(); };
    return f.constant || (f.content && std::all_of(f.content->begin(), f.content->end(), is_number));
  }

  std::vector<std::uint32_t> needed() const {
    std::vector<bool> seen(choice_.size());
    std::vector<std::uint32_t> out;
    const auto reach = [&](std::uint32_t c) {
      if (!seen[c] && !(c < computed_.size() && computed_[c])) out.push_back(c);
      seen[c] = true;
    };
    for (const std::uint32_t c : p_.plain.roots) reach(c);
    for (std::size_t i = 0; i < out.size(); ++i)
      for (const std::uint32_t c : p_.plain.children_of(choice_[out[i]])) reach(c);
    return out;
  }

  // A spelling is fused where nothing else reads a value in it. The longest goes first.
  void fuse() {
    std::vector<std::pair<std::uint32_t, const std::vector<std::uint32_t>*>> whole;
    for (const auto& [n, nodes] : p_.spelled)
      if (std::all_of(nodes.begin(), nodes.end(), [&](std::uint32_t of) { return says_the_same(choice_[class_of_[of]], of); }))
        whole.emplace_back(n, &nodes);
    std::stable_sort(whole.begin(), whole.end(), [](const auto& a, const auto& b) { return a.second->size() > b.second->size(); });
    for (const auto& [n, nodes] : whole)
      if (is_alone(*nodes) && has_inputs(n)) {
        for (const std::uint32_t of : *nodes) taken_.insert(class_of_[of]);
        choice_[class_of_[n]] = n;
      }
  }

  bool says_the_same(std::uint32_t a, std::uint32_t b) const { return a != kUnchosen && p_.node_id[a] == p_.node_id[b]; }

  void count_readers() {
    readers_.assign(choice_.size(), 0);
    for (const std::uint32_t c : p_.plain.roots) ++readers_[c];
    for (const std::uint32_t made : needed())
      for (const std::uint32_t c : p_.plain.children_of(choice_[made])) ++readers_[c];
  }

  // An input may be there in another form alone (OnnxProblem::blockers).
  bool has_inputs(std::uint32_t n) const {
    const auto inputs = p_.plain.children_of(n);
    return std::all_of(inputs.begin(), inputs.end(), [&](std::uint32_t c) { return choice_[c] != kUnchosen; });
  }

  bool is_alone(const std::vector<std::uint32_t>& nodes) const {
    std::map<std::uint32_t, std::size_t> inside;
    for (const std::uint32_t n : nodes) {
      if (taken_.contains(class_of_[n])) return false;
      for (const std::uint32_t c : p_.plain.children_of(choice_[class_of_[n]])) ++inside[c];
    }
    return std::all_of(nodes.begin() + 1, nodes.end(), [&](std::uint32_t n) {
      const auto it = inside.find(class_of_[n]);
      return it != inside.end() && it->second == readers_[class_of_[n]];
    });
  }

  const OnnxEGraph& g_;
  const OnnxProblem& p_;
  NodeChoice choice_;
  const std::vector<std::uint32_t> class_of_;
  std::vector<bool> computed_;  // classes
  std::vector<std::size_t> readers_;
  std::set<std::uint32_t> taken_;  // classes
};

}  // namespace

double cost_as_made(const OnnxEGraph& g, const CostModel& cost, const OpKey& key, std::span<const Id> inputs, Id output) {
  const std::string name = operator_name(key.domain, key.op_type);
  return cost.cost_as(g, {name, key.attributes}, tensors_of(name, inputs), output);
}

AtLoad at_load(const OnnxEGraph& g, const Target* target, const OnnxProblem& p, const NodeChoice& given, const CostModel* told) {
  AtLoad out;
  const EGraph& e = g.egraph();
  const auto add = [&](std::uint32_t node) {
    Price price = p.plain.cost[node];
    const NodeId n = p.node_id[node];
    if (told && p.spelled.contains(node)) price.cost = cost_as_made(g, *told, g.key(e.node(n).op), e.node(n).children, e.class_of(n));
    out.price += price;
    if (n == kNone) return;
    const OpKey& key = g.key(e.node(n).op);
    if (key.domain == "#" || key.role == UnitRole::kPart) return;
    const std::string name = operator_name(key.domain, key.op_type);
    ++out.operators[name];
    out.cost[comparable_op(name)] += price.cost;
  };
  if (target && target->fuses_at_load) {
    const DroppedAtLoad dropped(g, *target);
    for (const auto& [c, node] : Loaded(g, p, given).run())
      if (p.node_id[node] == kNone || !dropped.has(p.node_id[node])) add(node);
  } else {
    for (const std::uint32_t node : needed_only(p.plain, given))
      if (node != kUnchosen) add(node);
  }
  return out;
}

namespace {

constexpr double kNinetyPercent = 1.645;

double ratio_of(const AtLoad& before, const AtLoad& after) { return before.price.cost > 0 ? after.price.cost / before.price.cost : 1; }

// Of the ratio, where prices are wrong by `relative_error`.
double variance_by_prices(const AtLoad& before, const AtLoad& after, double relative_error) {
  // Even equal graphs differ by where their weights lie in memory (docs/extraction.md).
  constexpr double kOfMachine = 0.01;
  const double ratio = ratio_of(before, after);
  double variance = kOfMachine * kOfMachine;
  std::set<std::string> families;
  for (const auto* side : {&before.cost, &after.cost})
    for (const auto& [family, cost] : *side) families.insert(family);
  const auto cost_of = [](const AtLoad& loaded, const std::string& family) {
    const auto it = loaded.cost.find(family);
    return it == loaded.cost.end() ? 0.0 : it->second;
  };
  for (const std::string& family : families) {
    const double more = before.price.cost > 0 ? (cost_of(after, family) - ratio * cost_of(before, family)) / before.price.cost : 0;
    variance += relative_error * relative_error * more * more;
  }
  return variance;
}

}  // namespace

bool is_dearer(const AtLoad& before, const AtLoad& after, double relative_error) {
  return ratio_of(before, after) - kNinetyPercent * std::sqrt(variance_by_prices(before, after, relative_error)) > 1;
}

std::pair<double, double> ratio_range(const AtLoad& before, const AtLoad& after, double relative_error) {
  // Trained models run at other sizes, on other machines and beside other operators than the rows of the table: of what a prediction says
  // to change, so much is wrong (docs/extraction.md, "The range").
  constexpr double kErrorOfChange = 0.4;
  const double ratio = ratio_of(before, after), by_change = kErrorOfChange * (ratio - 1);
  const double around = kNinetyPercent * std::sqrt(variance_by_prices(before, after, relative_error) + by_change * by_change);
  return {std::max(0.0, ratio - around), ratio + around};
}

}  // namespace saturate
