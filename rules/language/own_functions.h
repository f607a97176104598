// Functions that rule files define in ONNX text: `function my.dom.F <a: float = 0.1> (X, W) => (Y) { ... }`. Each is an operator with a
// body (operators.h), two rules (a call is its body, and the body is a call), and a local function of a model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_bridge/model/model.h"
#include "rules/language/operators.h"
#include "rules/terms/rule.h"

namespace saturate {

// Brings the body as ONNX text has it into the form of rules: what a Constant takes from an attribute becomes a `let`, numbers have the
// dtype that their reader asks for (CastLike of a Constant is that Constant), copies have no node. kInvalidArgument with the place.
absl::Status complete_function(Rule& function, const RuleOperators& defined);

// "NAME[expanded]", and "NAME[found]" where one output is made of the whole body, which then tells all inputs and attributes.
std::vector<Rule> rules_of_function(const Rule& function);

// The function as a model of this opset of ai.onnx holds it. kFailedPrecondition: the opset lacks something.
absl::StatusOr<Function> onnx_function(const Rule& function, std::int64_t opset,
                                       const std::map<std::string, std::int64_t>& domain_versions);

}  // namespace saturate
