// The functions that `where` and `let` may call: pure, without state, each with a reason when it has no answer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "rules/evaluate/eval.h"

namespace saturate {

using Args = std::span<const Val>;

struct RuleFunction {
  std::string_view name;
  int min_arguments = 0, max_arguments = 0;
  std::string_view signature;  // "(x, i) -> dim"
  std::string_view doc;        // one sentence
  std::string_view example;    // "dim(X, -1) == 64"
  Result (*run)(EvalContext& context, Args arguments);
  bool looks_around = false;  // its answer depends on more than its arguments' facts: on e-nodes of their classes, and of those below
};

const RuleFunction* find_rule_function(std::string_view name);
// The known name that looks most like this one.
std::string nearest_rule_function(std::string_view name);
// All of them, by name.
std::span<const RuleFunction* const> rule_functions();

// By family; functions.cpp joins them.
std::span<const RuleFunction> fact_functions();
std::span<const RuleFunction> list_functions();
std::span<const RuleFunction> shape_functions();
std::span<const RuleFunction> number_functions();
std::span<const RuleFunction> constant_functions();
std::span<const RuleFunction> packed_functions();
std::span<const RuleFunction> range_functions();

}  // namespace saturate
