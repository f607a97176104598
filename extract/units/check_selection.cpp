#include "extract/units/check_selection.h"

#include <algorithm>

#include "fmt/format.h"

namespace saturate {

std::string check_selection(const EGraph& e, const std::vector<Id>& roots, const Selection& selection) {
  enum : char { kNew, kOpen, kDone };
  std::vector<char> state(selection.by_class.size(), kNew);
  std::vector<std::pair<Id, std::size_t>> stack;
  for (Id r : roots) stack.emplace_back(e.find(r), 0);
  while (!stack.empty()) {
    auto& [id, next] = stack.back();
    const Choice* choice = selection.find(id);
    if (!choice || (choice->node == kNone && !choice->folded)) return fmt::format("class {} is needed and not selected", id);
    if (choice->node != kNone && e.find(e.class_of(choice->node)) != id)
      return fmt::format("class {} is given an e-node of another class", id);
    if (state[id] == kDone) {
      stack.pop_back();
      continue;
    }
    state[id] = kOpen;
    const auto children = choice->folded ? std::span<const Id>() : e.node(choice->node).children;
    if (next == children.size()) {
      state[id] = kDone;
      stack.pop_back();
      continue;
    }
    const Id child = e.find(children[next++]);
    if (child < state.size() && state[child] == kOpen) return fmt::format("class {} depends on itself", child);
    stack.emplace_back(child, 0);
  }
  return "";
}

}  // namespace saturate
