#include "tools/explain/closure.h"

#include <algorithm>

#include "extract/optimize/fused.h"
#include "fmt/format.h"

namespace saturate {
namespace {

bool makes(const std::vector<RuleNode>& side, const std::string& op) {
  return std::any_of(side.begin(), side.end(), [&](const RuleNode& n) { return is_op(full_name(n.domain, n.op_type), op); });
}

}  // namespace

bool is_op(const std::string& op_type, const std::string& asked) { return op_type == asked || op_type.ends_with("." + asked); }

std::string full_name(const std::string& domain, const std::string& op_type) {
  return domain.empty() ? op_type : fmt::format("{}.{}", domain, op_type);
}

Closure::Closure(const RuleSet& rules, const std::string& op) {
  std::vector<std::pair<std::string, int>> todo{{op, 0}};
  std::set<std::string> seen{op};
  for (std::size_t i = 0; i < todo.size(); ++i) {
    const auto [target, distance] = todo[i];
    for (const Rule& rule : rules.rules()) {
      if (makes(rule.right, target)) add(rule.name, rule.left, distance, seen, todo);
      if (rule.both_ways && makes(rule.left, target)) add(back_of(rule.name), rule.right, distance, seen, todo);
    }
  }
}

std::optional<int> Closure::distance(const std::string& rule) const {
  const auto it = distance_.find(rule);
  return it == distance_.end() ? std::nullopt : std::optional(it->second);
}

void Closure::add(const std::string& rule, const std::vector<RuleNode>& left, int distance, std::set<std::string>& seen,
                  std::vector<std::pair<std::string, int>>& todo) {
  if (!distance_.try_emplace(rule, distance).second) return;
  if (distance == 0 && !left.empty()) roots_.insert(left.back().op_type);
  for (const RuleNode& n : left) {
    const std::string name = full_name(n.domain, n.op_type);
    const std::string_view family = fused_family(name);
    const bool fused = !family.empty() && family != "other fused";
    if ((n.domain == "saturate" || fused) && seen.insert(name).second) todo.emplace_back(name, distance + 1);
  }
}

}  // namespace saturate
