#include "rules/evaluate/functions.h"

#include <algorithm>
#include <map>

namespace saturate {
namespace {

struct Registry {
  std::vector<const RuleFunction*> sorted;
  Registry() {
    for (auto family : {fact_functions(), list_functions(), shape_functions(), number_functions(), constant_functions(), packed_functions(),
                        range_functions()})
      for (const RuleFunction& f : family) sorted.push_back(&f);
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  }
};

const Registry& registry() {
  static const Registry instance;
  return instance;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t old = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = old;
    }
  }
  return row.back();
}

}  // namespace

const RuleFunction* find_rule_function(std::string_view name) {
  const auto& all = registry().sorted;
  const auto it = std::lower_bound(all.begin(), all.end(), name, [](const RuleFunction* f, std::string_view n) { return f->name < n; });
  return it != all.end() && (*it)->name == name ? *it : nullptr;
}

std::string nearest_rule_function(std::string_view name) {
  const auto& all = registry().sorted;
  const auto best = std::min_element(
      all.begin(), all.end(), [&](const auto* a, const auto* b) { return edit_distance(a->name, name) < edit_distance(b->name, name); });
  return std::string((*best)->name);
}

std::span<const RuleFunction* const> rule_functions() { return registry().sorted; }

}  // namespace saturate
