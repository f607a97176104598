// Rules for a model that another tool reads next, which knows few operators: a quantizer. A rule that makes of an operator which the tool
// knows one that it does not know hides it: a convolution in FusedConv, a product in Attention.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "rules/stored/stored_rule.h"

namespace saturate {

// The operators that a tool knows: "Op", "domain::Op".
using KnownOperators = std::set<std::string, std::less<>>;

class Hiding {
 public:
  // `rules`: all that there are, for what an operator between rules stands for (saturate.attention).
  Hiding(const StoredRules& rules, const std::vector<KnownOperators>& tools);

  // Whether a rule, either way, hides an operator from some tool.
  bool hides(const RuleHead& rule) const;
  // The same of a rule in C++ that makes this operator of many.
  bool hides(const RuleOp& made) const;

 private:
  struct Tool {
    KnownOperators known;
    KnownOperators meant;  // operators between rules that stand for what it knows
    bool knows(const RuleOp& op) const;
    bool takes(const RuleOp& op) const;
    bool is_hidden_by(const RuleDirection& direction, const RuleOp& made) const;
  };
  std::vector<Tool> tools_;
};

}  // namespace saturate
