#include "rules/stored/stored_rule.h"

#include <algorithm>
#include <limits>
#include <map>

#include "rules/stored/flat.h"

namespace saturate {
namespace {

bool contains(const auto& names, std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); }

// The sets of optional inputs to compile a rule without. E-nodes have no absent operands at the end, so operators of each length are
// patterns of their own; an absent operand between others is matched by its variable.
absl::InlinedVector<std::vector<std::string_view>, 1> forms(const Rule& rule, const std::vector<RuleNode>& left) {
  absl::InlinedVector<std::vector<std::string_view>, 1> out = {{}};
  for (const RuleNode& n : left) {
    std::size_t first = n.inputs.size();
    while (first > 0 && (n.inputs[first - 1].empty() || contains(rule.optional, n.inputs[first - 1]))) --first;
    const std::size_t known = out.size();
    std::vector<std::string_view> dropped;
    for (std::size_t i = n.inputs.size(); i-- > first;) {
      if (n.inputs[i].empty() || contains(dropped, n.inputs[i])) continue;
      dropped.push_back(n.inputs[i]);
      for (std::size_t k = 0; k < known; ++k) {
        std::vector<std::string_view> form = out[k];
        for (const std::string_view name : dropped)
          if (!contains(form, name)) form.push_back(name);
        std::sort(form.begin(), form.end());
        if (std::find(out.begin(), out.end(), form) == out.end()) out.push_back(std::move(form));
      }
    }
  }
  return out;
}

RuleOp name_of(const RuleNode& node) { return {node.domain, node.op_type, node.outputs.size()}; }

RuleDirection direction_of(const Rule& rule, const std::vector<RuleNode>& left, const std::vector<RuleNode>& right) {
  RuleDirection out{{}, {}, forms(rule, left), {}};
  for (const RuleNode& n : right)
    if (!n.is_constant()) out.makes.push_back(name_of(n));
  std::map<std::string_view, std::uint8_t> makers;  // of the operators with one output: others stand behind a projection
  for (const RuleNode& n : left) {
    if (n.is_constant() || out.wants.size() == std::numeric_limits<std::uint8_t>::max()) continue;
    const auto place = static_cast<std::uint8_t>(out.wants.size());
    out.wants.push_back(name_of(n));
    for (const std::string& input : n.inputs)
      if (const auto it = makers.find(input); it != makers.end()) out.below.emplace_back(place, it->second);
    if (n.outputs.size() == 1) makers.emplace(n.outputs[0], place);
  }
  return out;
}

}  // namespace

RuleHead head_of(const Rule& rule) {
  RuleHead head;
  head.name = rule.name;
  head.effect = rule.effect;
  head.assumes.assign(rule.assumes.begin(), rule.assumes.end());
  head.if_unsupported = rule.if_unsupported;
  head.if_any_unsupported = rule.if_any_unsupported;
  head.defines = rule.defines;
  head.if_lacking = rule.if_lacking;
  head.moves_quantizers = rule.moves_quantizers;
  head.if_refused = rule.if_refused;
  head.yields_to = rule.yields_to;
  head.budget = rule.budget;
  head.phase = rule.phase;
  if (!rule.left.empty()) head.ends_in = name_of(rule.left.back());
  head.directions.push_back(direction_of(rule, rule.left, rule.right));
  if (rule.both_ways) head.directions.push_back(direction_of(rule, rule.right, rule.left));
  return head;
}

const Rule& StoredRule::rule() const {
  once_.call([this] {
    if (!read_) read_ = std::make_unique<const Rule>(flat_->rule(place_));
  });
  return *read_;
}

}  // namespace saturate
