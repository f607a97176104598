#include "rules/compile.h"

#include <fmt/format.h>

#include <algorithm>

#include "rules/compile_plan.h"
#include "rules/functions.h"

namespace saturate {

void RuleLog::refuse(const std::string& rule, std::string what) {
  const std::lock_guard lock(mutex_);
  refusals_.push_back({rule, std::move(what)});
}

std::vector<RuleLog::Refusal> RuleLog::refusals() const {
  const std::lock_guard lock(mutex_);
  return refusals_;
}

std::string clash(const Facts& a, const Facts& b, const DimTable& dims) {
  if (a.kind == Facts::Kind::kUnknown || b.kind == Facts::Kind::kUnknown) return {};
  if (a.kind != b.kind) return "values of different sorts";
  if (a.kind != Facts::Kind::kTensor) return {};
  if (a.dtype != b.dtype && a.dtype != DType::kUndefined && b.dtype != DType::kUndefined)
    return fmt::format("dtype {} and {}", dtype_name(a.dtype), dtype_name(b.dtype));
  if (!a.shape || !b.shape) return {};
  if (a.rank() != b.rank()) return fmt::format("rank {} and {}", a.rank(), b.rank());
  for (std::size_t i = 0; i < a.shape->size(); ++i)
    if (dims.differ((*a.shape)[i], (*b.shape)[i]))
      return fmt::format("dim {}: {} and {}", i, dims.to_string((*a.shape)[i]), dims.to_string((*b.shape)[i]));
  return {};
}

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The sets of optional inputs to compile a rule without. E-nodes have no absent operands at the end, so operators of each length are
// patterns of their own; an absent operand between others is matched by its variable.
std::vector<std::vector<std::string>> forms(const Rule& rule, const std::vector<RuleNode>& left) {
  std::vector<std::vector<std::string>> out = {{}};
  for (const RuleNode& n : left) {
    std::size_t first = n.inputs.size();
    while (first > 0 && (n.inputs[first - 1].empty() || contains(rule.optional, n.inputs[first - 1]))) --first;
    const std::size_t known = out.size();
    std::vector<std::string> dropped;
    for (std::size_t i = n.inputs.size(); i-- > first;) {
      if (n.inputs[i].empty() || contains(dropped, n.inputs[i])) continue;
      dropped.push_back(n.inputs[i]);
      for (std::size_t k = 0; k < known; ++k) {
        std::vector<std::string> form = out[k];
        for (const std::string& name : dropped)
          if (!contains(form, name)) form.push_back(name);
        std::sort(form.begin(), form.end());
        if (std::find(out.begin(), out.end(), form) == out.end()) out.push_back(std::move(form));
      }
    }
  }
  return out;
}

bool of_facts_alone(const Expr& expr) {
  return (expr.function == nullptr || !expr.function->looks_around) &&
         std::all_of(expr.arguments.begin(), expr.arguments.end(), [](const ExprPtr& e) { return !e || of_facts_alone(*e); });
}

bool of_facts_alone(const Rule& rule) {
  return std::all_of(rule.where.begin(), rule.where.end(), [](const ExprPtr& e) { return of_facts_alone(*e); }) &&
         std::all_of(rule.lets.begin(), rule.lets.end(), [](const auto& let) { return of_facts_alone(*let.second); });
}

Rewrite compile_form(Rule direction, std::vector<std::string> left_out, OnnxEGraph& g, std::shared_ptr<RuleLog> log) {
  auto compiled = std::make_shared<CompiledRule>();
  compiled->rule = std::move(direction);
  compiled->left_out = std::move(left_out);
  compile_left(*compiled, g);
  compile_right(*compiled, g);
  Rewrite rewrite;
  rewrite.name = compiled->rule.name;
  rewrite.left = compiled->pattern;
  if (compiled->rule.budget) rewrite.budget = *compiled->rule.budget;
  rewrite.phase = compiled->rule.phase;
  rewrite.of_facts_alone = of_facts_alone(compiled->rule);
  rewrite.applier = make_applier(std::move(compiled), g, std::move(log));
  return rewrite;
}

}  // namespace

std::vector<Rewrite> compile_rule(const Rule& rule, OnnxEGraph& g, std::shared_ptr<RuleLog> log) {
  std::vector<Rewrite> rewrites;
  KnownKinds kinds(g);
  compile_when_wanted(rule, g, kinds, log, rewrites);
  for (Rewrite& rewrite : rewrites) rewrite = rewrite.make();
  return rewrites;
}

Kind KnownKinds::of(const RuleNode& node) {
  const auto [it, is_new] = known_.try_emplace({node.domain, node.op_type, node.outputs.size()}, Kind{});
  if (is_new) it->second = g_.kind(node.domain, node.op_type, static_cast<int>(node.outputs.size()));
  return it->second;
}

void compile_when_wanted(const Rule& rule, OnnxEGraph& g, KnownKinds& kinds, const std::shared_ptr<RuleLog>& log, std::vector<Rewrite>& out) {
  for (const bool back : {false, true}) {
    if (back && !rule.both_ways) break;
    const std::vector<RuleNode>& left = back ? rule.right : rule.left;
    std::vector<Kind> wants;
    for (const RuleNode& n : left)
      if (!n.is_constant()) wants.push_back(kinds.of(n));
    for (std::vector<std::string>& form : forms(rule, left)) {
      Rewrite rewrite;
      rewrite.name = back ? back_of(rule.name) : rule.name;
      if (rule.budget) rewrite.budget = *rule.budget;
      rewrite.phase = rule.phase;
      rewrite.wants = wants;
      rewrite.make = [&rule, &g, back, form = std::move(form), log] { return compile_form(back ? reversed(rule) : rule, form, g, log); };
      out.push_back(std::move(rewrite));
    }
  }
}

}  // namespace saturate
