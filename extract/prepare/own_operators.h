// Operators of domains of their own, which neither the standard nor a known runtime has: which of them rules see in a model, and which
// functions of the model stay functions.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "extract/target/target.h"
#include "onnx_bridge/convert/lower.h"
#include "rules/compile/rule_set.h"

namespace saturate {

struct OwnOperators {
  std::set<OperatorName> named;     // that rules name
  std::set<OperatorName> kept;      // functions of the model whose calls stay calls
  std::set<OperatorName> others;    // that rules name, and that are something else in the model: such rules are left out
  std::set<std::string> pointless;  // rules that would make what the target does not take and no other rule reads
  std::vector<std::string> warnings;
  bool leaves_out(const RuleHead& rule) const;
};
// Whether nodes call an operator.
bool holds(const std::vector<Node>& nodes, const RuleOp& op);
// Whether the target takes an operator at all, in some opset up to this one.
bool takes(const Target& target, const RuleOp& op, std::int64_t limit);

OwnOperators own_operators(const Model& model, const RuleSet& rules, const Target& target);

}  // namespace saturate
