// Rules as data for programs: both sides as nodes, conditions as terms (`saturate rules export`), and what is proven of them.
#pragma once

#include <string>

#include "nlohmann/json.hpp"
#include "rules/terms/rule.h"

namespace saturate {

// A term: ["name", "X"], ["int", 2], ["call", "rank", term], ["binary", "==", term, term] ...
nlohmann::json term_data(const Expr& expr);
// All that a rule says, but for its examples and documentation.
nlohmann::json rule_data(const Rule& rule);

// "proven for any size at every rank (over the reals)"; "" where nothing is known of the rule.
std::string proof_line(const Rule& rule);

}  // namespace saturate
