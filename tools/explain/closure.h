// Which rules lead to an operator.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rules/compile/rule_set.h"

namespace saturate {

// "Attention" means ai.onnx's and com.microsoft's.
bool is_op(const std::string& op_type, const std::string& asked);
std::string full_name(const std::string& domain, const std::string& op_type);

// The operators that the rules for one operator pass through: internal ones, and how many rules away they are.
class Closure {
 public:
  Closure() = default;  // of no operator
  Closure(const RuleSet& rules, const std::string& op);
  std::optional<int> distance(const std::string& rule) const;
  const std::set<std::string>& roots() const { return roots_; }  // last operators of the rules that make it directly

 private:
  void add(const std::string& rule, const std::vector<RuleNode>& left, int distance, std::set<std::string>& seen,
           std::vector<std::pair<std::string, int>>& todo);
  std::map<std::string, int> distance_;
  std::set<std::string> roots_;
};

}  // namespace saturate
