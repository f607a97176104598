#include "extract/prepare/own_operators.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "extract/prepare/local_functions.h"
#include "fmt/format.h"
#include "onnx_bridge/operators/op_table.h"

namespace saturate {
namespace {

OperatorName name_of(const RuleOp& op) { return {std::string(op.domain), std::string(op.op_type)}; }

bool takes(const Target& target, const OperatorName& op) {
  OpKey key;
  key.domain = op.first;
  key.op_type = op.second;
  return target.allows({.key = key});
}

// What the rules of a set name.
class Named {
 public:
  explicit Named(const RuleSet& rules) {
    for (const StoredRules* stored_rules : {&rules.operators().all(), &rules.stored()})
      for (const auto& stored : *stored_rules) add(stored->head());
  }

  std::set<OperatorName> all;
  std::map<OperatorName, std::set<std::string>> readers, makers;  // names of rules
  std::map<OperatorName, std::set<OperatorName>> called;          // by the body of an operator

 private:
  void add(const RuleHead& rule) {
    for (const RuleDirection& d : rule.directions) {
      for (const RuleOp& op : d.wants) add(op, rule, readers);
      for (const RuleOp& op : d.makes) add(op, rule, makers);
      if (rule.defines)
        for (const RuleOp& op : d.makes) called[name_of(rule.ends_in)].insert(name_of(op));
    }
  }

  void add(const RuleOp& op, const RuleHead& rule, std::map<OperatorName, std::set<std::string>>& where) {
    if (op.domain.empty() || !is_of_own_domain(op.domain)) return;
    all.insert(name_of(op));
    if (!rule.defines) where[name_of(op)].emplace(rule.name);
  }
};

// Whether a target names an operator beyond the standard.
bool names(const Target& target, const OperatorName& op) {
  const auto it = target.operators.find(op.first);
  return !op.first.empty() && it != target.operators.end() && (it->second.contains(op.second) || it->second.contains("*"));
}

// And operators whose bodies name one of these.
void add_callers(const Named& named, std::set<OperatorName>& operators) {
  for (bool grows = !operators.empty(); grows;) {
    grows = false;
    for (const auto& [caller, called] : named.called)
      if (std::any_of(called.begin(), called.end(), [&](const OperatorName& op) { return operators.contains(op); }))
        grows |= operators.insert(caller).second;
  }
}

// The rules that find a function are pointless where nobody takes it.
std::set<std::string> pointless_rules(const Named& named, const Target& target) {
  std::set<std::string> out;
  for (const auto& [op, makers] : named.makers) {
    const std::string law = qualified_name(op.first, op.second);
    const auto is_own = [&](const std::string& rule) { return law_of(rule) == law; };
    const auto readers = named.readers.find(op);
    if (takes(target, op) || (readers != named.readers.end() && !std::all_of(readers->second.begin(), readers->second.end(), is_own)))
      continue;
    std::copy_if(makers.begin(), makers.end(), std::inserter(out, out.end()), is_own);
  }
  return out;
}

}  // namespace

bool OwnOperators::leaves_out(const RuleHead& rule) const {
  if (pointless.contains(std::string(rule.name))) return true;
  const auto is_other = [this](const RuleOp& op) { return others.contains(name_of(op)); };
  return !others.empty() && std::any_of(rule.directions.begin(), rule.directions.end(), [&](const RuleDirection& d) {
    return std::any_of(d.wants.begin(), d.wants.end(), is_other) || std::any_of(d.makes.begin(), d.makes.end(), is_other);
  });
}

bool holds(const std::vector<Node>& nodes, const RuleOp& op) {
  return std::ranges::any_of(nodes, [&](const Node& node) { return node.domain == op.domain && node.op_type == op.op_type; });
}

bool takes(const Target& target, const RuleOp& op, std::int64_t limit) {
  OpKey key;
  key.domain = op.domain;
  key.op_type = op.op_type;
  return (!op.domain.empty() || is_in_opset(key.op_type, limit)) && target.allows({.key = key, .highest_opset = limit});
}

OwnOperators own_operators(const Model& model, const RuleSet& rules, const Target& target) {
  const Named named(rules);
  OwnOperators out;
  out.named = named.all;
  out.pointless = pointless_rules(named, target);
  for (const auto& [domain, version] : rules.domain_versions()) {
    const std::int64_t given = model.opset(domain);
    if (given == 0 || given == version) continue;
    const auto is_there = [&](const OperatorName& op) { return op.first == domain; };
    std::copy_if(named.all.begin(), named.all.end(), std::inserter(out.others, out.others.end()), is_there);
    out.warnings.push_back(
        fmt::format("rules are for version {} of domain {}, and the model has version {}: they are left out", version, domain, given));
  }
  for (const Function& f : model.functions)
    if (f.overload.empty() && named.all.contains({f.domain, f.name}) && rules.operators().bodies(f.domain, f.name) &&
        !is_same_function(f, rules)) {
      out.others.insert({f.domain, f.name});
      out.warnings.push_back(fmt::format("the model's function {0} is another one than {0} of the rules: those that name it are left out",
                                         qualified_name(f.domain, f.name)));
    }
  add_callers(named, out.others);
  for (const OperatorName& op : out.others) out.named.erase(op);
  if (target.keep_functions)
    for (const Function& f : model.functions)
      if (names(target, {f.domain, f.name})) out.kept.insert({f.domain, f.name});
  return out;
}

}  // namespace saturate
