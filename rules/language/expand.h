// From a rule as it is written to the rules that it stands for: with and without optional values, its mirror image, with and without an
// assumption, each attribute by name. Matcher, applier, `explain` and checker see only what comes out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rules/terms/rule.h"

namespace saturate {

// `optional past: Pk, Pv, Kt, Vt`: inputs and outputs that are all there or all absent.
struct OptionalGroup {
  std::string name;
  std::vector<std::string> values;
  Place place;
};

struct WrittenRule {
  Rule rule;
  std::vector<std::string> labels;  // of the instance so far: what `forall` has chosen
  std::vector<std::string> rests;   // `..a` of the header
  std::vector<OptionalGroup> optional;
  // `assume NAME, NAME unless CONDITION`: without the assumptions where the condition holds, with them elsewhere.
  struct Assumed {
    std::vector<std::string> names;
    ExprPtr unless;
  };
  std::vector<Assumed> assumed;
  // `backward ...`: what holds of a `<=>` rule read from right to left alone.
  struct Backward {
    Place place;
    bool if_unsupported = false, if_any_unsupported = false, if_refused = false, moves_quantizers = false;
    std::vector<ExprPtr> where;
  };
  std::optional<Backward> backward;
};

// kInvalidArgument with the place and what is wrong.
absl::StatusOr<std::vector<Rule>> expand(const WrittenRule& written);

// A name as an expression.
ExprPtr name_expr(const std::string& name, Place place);
// A copy of an expression in which names stand for others; the copy is at `place` where that is given.
ExprPtr with_names(const ExprPtr& e, const std::map<std::string, ExprPtr, std::less<>>& names, const Place* place = nullptr);

}  // namespace saturate
