#include "tools/explain/question.h"

#include <algorithm>
#include <set>
#include <utility>

#include "extract/prepare/graph_stats.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/model/wrong_usage.h"
#include "onnx_bridge/operators/op_table.h"
#include "tools/explain/kinds.h"

namespace saturate {
namespace {

bool has_value(const Graph& graph, const std::string& value) {
  const auto computes = [&](const Node& n) {
    return std::find(n.outputs.begin(), n.outputs.end(), value) != n.outputs.end() ||
           std::any_of(n.attributes.begin(), n.attributes.end(),
                       [&](const Attribute& a) { return a.type == AttributeType::kGraph && has_value(a.g(), value); });
  };
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), computes) ||
         std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](const ValueInfo& v) { return v.name == value; });
}

// Operators that can be asked for stand in the standard, in the model or in a rule.
std::set<std::string> askable_operators(const Model& model, const RuleSet& rules) {
  std::set<std::string> known;
  for (const char* domain : {"", "com.microsoft", "ai.onnx.ml"})
    for (const std::string& name : operator_names(domain)) known.insert(name);
  for (const std::string& name : rules.made_operators()) known.insert(without_domain(name));
  for (const auto& [name, count] : graph_stats(model).operators) known.insert(without_domain(name));
  for (const Function& f : model.functions) known.insert(f.name);
  return known;
}

absl::Status check_operator(const Model& model, const RuleSet& rules, const std::string& asked) {
  if (asked.empty()) return absl::OkStatus();
  const std::set<std::string> known = askable_operators(model, rules);
  const std::string name = without_domain(asked);
  if (known.contains(name)) return absl::OkStatus();
  return wrong_usage(fmt::format("--op {}: no operator of this name is known; {}", asked,
                                 what_instead(name, {known.begin(), known.end()}, "`saturate inspect` lists those of the model")));
}

std::vector<std::string> value_names(const Graph& graph) {
  std::vector<std::string> out;
  for (const ValueInfo& input : graph.inputs) out.push_back(input.name);
  for (const Node& node : graph.nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty()) out.push_back(output);
  return out;
}

}  // namespace

absl::Status check_question(const Model& model, const RuleSet& rules, const WhyQuery& query) {
  if (!query.value.empty() && !has_value(model.graph, query.value))
    return wrong_usage(fmt::format("--value {}: the model has no such value; {}", query.value,
                                   what_instead(query.value, value_names(model.graph), "`saturate inspect` names inputs and outputs")));
  if (!query.rule.empty() && rules.show(query.rule).empty())
    return wrong_usage(fmt::format("--rule {}: {}", query.rule, no_such_rule(rules, query.rule)));
  return check_operator(model, rules, query.op);
}

absl::StatusOr<WhyQuery> understood(WhyQuery query, const std::string& word, const Model& model, const RuleSet& rules) {
  const auto is_operator = [&](const std::string& op) { return askable_operators(model, rules).contains(without_domain(op)); };
  if (!query.op.empty() && !is_operator(query.op) && find_kind(query.op)) query.kind = find_kind(std::exchange(query.op, ""))->name;
  if (word.empty()) return query;
  if (const BlockKind* kind = find_kind(word))
    query.kind = kind->name;
  else if (has_value(model.graph, word))
    query.value = word;
  else if (is_operator(word))
    query.op = word;
  else if (!rules.show(word).empty())
    query.rule = word;
  else {
    std::vector<std::string> words = words_of_kinds(), values = value_names(model.graph), kinds;
    words.insert(words.end(), values.begin(), values.end());
    for (const BlockKind& kind : known_kinds()) kinds.emplace_back(kind.name);
    return wrong_usage(fmt::format("{}: neither a kind of block nor a value, operator or rule; {}", word,
                                   what_instead(word, words, fmt::format("kinds are {}", fmt::join(kinds, ", ")))));
  }
  return query;
}

}  // namespace saturate
