#include "rules/compile.h"

#include <fmt/format.h>

#include "rules/compile_plan.h"

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

std::vector<Rewrite> compile_rule(const Rule& rule, OnnxEGraph& g, std::shared_ptr<RuleLog> log) {
  std::vector<Rewrite> rewrites;
  const auto compile_one = [&](Rule direction) {
    auto compiled = std::make_shared<CompiledRule>();
    compiled->rule = std::move(direction);
    compile_left(*compiled, g);
    compile_right(*compiled, g);
    Rewrite rewrite;
    rewrite.name = compiled->rule.name;
    rewrite.left = compiled->pattern;
    if (compiled->rule.budget) rewrite.budget = *compiled->rule.budget;
    rewrite.phase = compiled->rule.phase;
    rewrite.applier = make_applier(std::move(compiled), g, log);
    rewrites.push_back(std::move(rewrite));
  };
  compile_one(rule);
  if (rule.both_ways) compile_one(reversed(rule));
  return rewrites;
}

}  // namespace saturate
