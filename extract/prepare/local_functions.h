// Functions of rule files, and functions that stay, as local functions of a model.
#pragma once

#include <cstdint>
#include <set>

#include "absl/status/statusor.h"
#include "onnx_bridge/convert/lower.h"
#include "onnx_bridge/model/model.h"
#include "rules/compile/rule_set.h"

namespace saturate {

// Whether rule files define functions.
bool has_functions(const RuleSet& rules);

// The model with a local function, written in this opset of ai.onnx, for each operator that it calls, that a rule file defines as a
// function and that is no function of the model already. Where its calls take several cases of one, each gets an overload.
// kFailedPrecondition: the opset lacks what a function holds.
absl::StatusOr<Model> with_functions(Model model, const RuleSet& rules, std::int64_t opset);

// Whether a function of a model says the same as that of this name in the rules, but for what the functions that it calls say.
bool is_same_function(const Function& function, const RuleSet& rules);

// Brings functions of the model into its own opset, as onnx.checker wants: these, and those that hold what it has another version of than
// theirs, where the model's was `before`.
// `were_in_place`: others without If, Loop and Scan took the place of their calls wherever this opset has what they hold: none of these is
// left. kFailedPrecondition: this opset lacks what a function holds.
absl::Status bring_to_opset(Model& model, const std::set<OperatorName>& functions, std::int64_t before, bool were_in_place);

// Functions of the model that hold what ai.onnx has in another version at this opset, or call such. Of their inputs nothing is known where
// they stand, so whether that version takes their types is known of a body in the place of its call alone.
std::set<OperatorName> functions_of_other_versions(const Model& model, std::int64_t opset);

}  // namespace saturate
