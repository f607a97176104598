#include "rules/values/constants_in_a_row.h"

#include <algorithm>
#include <string_view>

#include "absl/container/inlined_vector.h"

namespace saturate {
namespace {

constexpr std::size_t kWays = 4;  // of telling one value: rows of up to four constants keep all of theirs

// A value told by another one and a constant.
struct Way {
  std::string_view op;
  Id from;
  friend bool operator==(const Way&, const Way&) = default;
};
using Ways = absl::InlinedVector<Way, 8>;

// All of them; different constants are different ways.
Ways ways_to(const OnnxEGraph& g, Id id) {
  const EGraph& e = g.egraph();
  Ways out;
  for (const NodeId n : e.class_nodes(e.find(id))) {
    const ENode node = e.node(n);
    const OpKey& key = g.key(node.op);
    if (node.children.size() != 2 || !key.domain.empty()) continue;
    const bool ordered = key.op_type == "MatMul";
    if (!ordered && key.op_type != "Mul" && key.op_type != "Add") continue;
    const bool left = g.facts(node.children[0]).constant, right = g.facts(node.children[1]).constant;
    if (right && !left) out.push_back({key.op_type, e.find(node.children[0])});
    if (left && !right && !ordered) out.push_back({key.op_type, e.find(node.children[1])});
  }
  return out;
}

bool have_one_in_common(const Ways& a, const Ways& b) {
  return std::any_of(a.begin(), a.end(), [&](const Way& way) { return std::find(b.begin(), b.end(), way) != b.end(); });
}

}  // namespace

bool are_joined_past(const OnnxEGraph& g, Id x, Id middle, Id y) {
  const Ways of_y = ways_to(g, y);
  if (of_y.size() < kWays) return false;
  x = g.egraph().find(x);
  if (std::any_of(of_y.begin(), of_y.end(), [&](const Way& way) { return way.from == x; })) return true;
  const Ways of_middle = ways_to(g, middle);
  return have_one_in_common(of_y, of_middle) || have_one_in_common(of_middle, ways_to(g, x));
}

}  // namespace saturate
