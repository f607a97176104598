#include "rules/compile/kept_known.h"

#include <algorithm>

#include "fmt/format.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/language/operators.h"

namespace saturate {
namespace {

bool is_same(const RuleOp& a, const RuleOp& b) { return a.domain == b.domain && a.op_type == b.op_type; }
bool is_among(const RuleOp& op, const auto& ops) {
  return std::any_of(ops.begin(), ops.end(), [&](const RuleOp& other) { return is_same(op, other); });
}

// What hands numbers on, or knows them before the model runs: no quantizer has anything to do there.
bool computes(const RuleOp& op) {
  static const KnownOperators of_shapes{"Cast", "Concat", "Constant", "ConstantOfShape", "Range", "Shape", "Size"};
  return !has(Trait::kMovement, op) && !of_shapes.contains(op.op_type);
}

std::string name_of(const RuleOp& op) { return op.domain.empty() ? std::string(op.op_type) : fmt::format("{}::{}", op.domain, op.op_type); }

}  // namespace

Hiding::Hiding(const StoredRules& rules, const std::vector<KnownOperators>& tools) {
  for (const KnownOperators& known : tools) tools_.push_back({known, {}});
  for (Tool& tool : tools_)
    for (bool grows = true; grows;) {
      grows = false;
      for (const auto& rule : rules)
        for (const RuleDirection& d : rule->head().directions)
          if (std::any_of(d.wants.begin(), d.wants.end(), [&](const RuleOp& op) { return tool.takes(op); }))
            for (const RuleOp& made : d.makes)
              if (made.domain == kInternalDomain) grows |= tool.meant.emplace(made.op_type).second;
    }
}

bool Hiding::Tool::knows(const RuleOp& op) const { return known.contains(name_of(op)); }

// Whether it is lost to the tool when something else is made of it. What a model has of a runtime's own operators may be taken apart.
bool Hiding::Tool::takes(const RuleOp& op) const {
  if (op.domain == kInternalDomain) return meant.contains(op.op_type);
  return op.domain.empty() && knows(op) && computes(op);
}

bool Hiding::Tool::is_hidden_by(const RuleDirection& d, const RuleOp& made) const {
  if (made.domain == kInternalDomain || knows(made) || !computes(made) || is_among(made, d.wants)) return false;
  // A BatchNormalization becomes Mul and Add, and what is beside these computes their constants.
  const auto takes_its_place = [&](const RuleOp& op) { return takes(op) && !is_among(op, d.wants); };
  const bool is_replaced = std::any_of(d.makes.begin(), d.makes.end(), takes_its_place);
  return std::any_of(d.wants.begin(), d.wants.end(), [&](const RuleOp& op) {
    return takes(op) && !is_among(op, d.makes) && (op.domain == kInternalDomain || !is_replaced);
  });
}

bool Hiding::hides(const RuleHead& rule) const {
  const auto hides = [&](const RuleDirection& d) {
    return std::any_of(tools_.begin(), tools_.end(), [&](const Tool& tool) {
      return std::any_of(d.makes.begin(), d.makes.end(), [&](const RuleOp& made) { return tool.is_hidden_by(d, made); });
    });
  };
  return std::any_of(rule.directions.begin(), rule.directions.end(), hides);
}

bool Hiding::hides(const RuleOp& made) const {
  return std::any_of(tools_.begin(), tools_.end(), [&](const Tool& tool) { return computes(made) && !tool.knows(made); });
}

}  // namespace saturate
