// What explain is asked: that it names something there is, and what a bare word stands for (understood() of why_not.h).
#pragma once

#include "tools/explain/why_not.h"

namespace saturate {

// wrong_usage() where the query names a value, an operator or a rule that there is not.
absl::Status check_question(const Model& model, const RuleSet& rules, const WhyQuery& query);

}  // namespace saturate
