// Rules as data for programs: both sides as nodes, conditions as terms (`saturate rules export`), and what is proven of them.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"
#include "rules/terms/rule.h"

namespace saturate {

// A term: ["name", "X"], ["int", 2], ["call", "rank", term], ["binary", "==", term, term] ...
nlohmann::json term_data(const Expr& expr);
// All that a rule says, but for its examples and documentation.
nlohmann::json rule_data(const Rule& rule);

// What bench/prove_rules found of a law.
struct LawProof {
  std::string state;  // "proven", "bounded" or "run"
  std::string why;    // of what numbers, at which ranks, or why it is checked by running only
};
// By the name of the law; the built-in ones alone.
const std::map<std::string, LawProof, std::less<>>& law_proofs();
// "proven for any size at every rank (over the reals)"; "" where nothing is known of the rule.
std::string proof_line(const Rule& rule);

}  // namespace saturate
