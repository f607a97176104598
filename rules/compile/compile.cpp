#include "rules/compile/compile.h"

#include <fmt/format.h>

#include <algorithm>

#include "rules/compile/compile_plan.h"
#include "rules/evaluate/functions.h"

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

bool of_facts_alone(const Expr& expr) {
  return (expr.function == nullptr || !expr.function->looks_around) &&
         std::all_of(expr.arguments.begin(), expr.arguments.end(), [](const ExprPtr& e) { return !e || of_facts_alone(*e); });
}

bool of_facts_alone(const Rule& rule) {
  return std::all_of(rule.where.begin(), rule.where.end(), [](const ExprPtr& e) { return of_facts_alone(*e); }) &&
         std::all_of(rule.lets.begin(), rule.lets.end(), [](const auto& let) { return of_facts_alone(*let.second); });
}

Rewrite compile_form(std::shared_ptr<const Rule> direction, const std::vector<std::string_view>& left_out, bool early, OnnxEGraph& g,
                     std::shared_ptr<RuleLog> log) {
  auto compiled = std::make_shared<CompiledRule>();
  compiled->rule = std::move(direction);
  compiled->left_out.assign(left_out.begin(), left_out.end());
  compiled->tests_inputs_early = early;
  compile_left(*compiled, g);
  const Rule& rule = *compiled->rule;
  Rewrite rewrite;
  rewrite.name = rule.name;
  rewrite.left = std::move(compiled->pattern);
  if (rule.budget) rewrite.budget = *rule.budget;
  rewrite.phase = rule.phase;
  rewrite.of_facts_alone = of_facts_alone(rule);
  rewrite.applier = make_applier(std::move(compiled), g, std::move(log));
  return rewrite;
}

// `rule` read from left to right, or `back` from right to left; the caller keeps it.
std::shared_ptr<const Rule> as_read(const Rule& rule, bool back) {
  return back ? std::make_shared<const Rule>(reversed(rule)) : std::shared_ptr<const Rule>(std::shared_ptr<void>(), &rule);
}

}  // namespace

std::vector<Rewrite> compile_rule(const Rule& rule, OnnxEGraph& g, std::shared_ptr<RuleLog> log) {
  std::vector<Rewrite> rewrites;
  const RuleHead head = head_of(rule);
  for (std::size_t d = 0; d < head.directions.size(); ++d)
    for (const auto& form : head.directions[d].forms) rewrites.push_back(compile_form(as_read(rule, d > 0), form, false, g, log));
  return rewrites;
}

Kind KnownKinds::of(const RuleOp& op) {
  const auto [it, is_new] = known_.try_emplace({op.domain.data(), op.op_type.data(), op.outputs}, Kind{});
  if (is_new) it->second = g_.kind(op.domain, op.op_type, static_cast<int>(op.outputs));
  return it->second;
}

void compile_when_wanted(const std::shared_ptr<const StoredRule>& stored, OnnxEGraph& g, KnownKinds& kinds, std::vector<Rewrite>& out) {
  const RuleHead& head = stored->head();
  for (const RuleDirection& direction : head.directions) {
    const bool back = &direction != head.directions.data();
    decltype(Rewrite::wants) wants;
    for (const RuleOp& op : direction.wants) wants.push_back(kinds.of(op));
    decltype(Rewrite::wants_below) below;
    for (const auto& [op, input] : direction.below) below.emplace_back(wants[op], wants[input]);
    for (const auto& form : direction.forms) {
      Rewrite& rewrite = out.emplace_back();
      rewrite.name = head.name;
      if (back) rewrite.name = back_of(rewrite.name);
      if (head.budget) rewrite.budget = *head.budget;
      rewrite.phase = head.phase;
      rewrite.wants = wants;
      rewrite.wants_below = below;
      rewrite.make = [stored, &form, &g, back] { return compile_form(as_read(stored->rule(), back), form, true, g, nullptr); };
    }
  }
}

}  // namespace saturate
