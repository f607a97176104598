#include "rules/masks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "rules/opkey.h"

namespace saturate {
namespace {

constexpr std::size_t kMostMaskBytes = std::size_t{1} << 25;  // causal masks are large
constexpr int kDeepest = 8;

bool holds(const OnnxEGraph& g, Id id, bool (*test)(const Tensor&)) {
  if (!g.facts(id).constant) return false;
  const auto value = g.value(id, kMostMaskBytes);
  return value && test(*value);
}

class MaskSearch {
 public:
  MaskSearch(const OnnxEGraph& g, bool inputs) : g_(g), inputs_(inputs) {}

  bool binary(Id id, int depth) const {
    const Facts& facts = g_.facts(id);
    if (facts.dtype == DType::kBool) return true;
    if (facts.constant) return holds(g_, id, holds_zeros_and_ones);
    if (depth == 0) return false;
    for (NodeId n : g_.egraph().class_nodes(id))
      if (of_node(g_.egraph().node(n), facts.dtype, depth - 1)) return true;
    return false;
  }

 private:
  bool of_node(const ENode& node, DType dtype, int depth) const {
    const OpKey& key = g_.key(node.op);
    const std::string& op = key.op_type;
    if (key.domain == "#") return inputs_ && op == kInputOp;
    if (!key.domain.empty() || node.children.empty()) return false;
    if (op == "ConstantOfShape") {
      const Attribute* value = find_attribute(key.attributes, "value");
      return value && holds_zeros_and_ones(value->t());
    }
    if (op == "Cast" && inputs_ && g_.facts(node.children[0]).dtype != dtype) return MaskSearch(g_, false).binary(node.children[0], depth);
    const bool first_only = op == "Cast" || op == "Slice" || op == "Reshape" || op == "Transpose" || op == "Unsqueeze" || op == "Squeeze" ||
                            op == "Expand" || op == "Tile" || op == "Gather" || op == "Trilu" || op == "Flatten" || op == "Identity";
    const bool all = op == "Mul" || op == "Max" || op == "Min" || op == "Concat";
    if (!first_only && !all) return false;
    const std::size_t count = first_only ? 1 : node.children.size();
    return std::all_of(node.children.begin(), node.children.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](Id child) { return binary(child, depth); });
  }

  const OnnxEGraph& g_;
  bool inputs_;
};

bool chooses_infinity(const OnnxEGraph& g, Id id) {
  const std::vector<NodeId> nodes = g.egraph().class_nodes(id);
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) {
    const ENode node = g.egraph().node(n);
    const OpKey& key = g.key(node.op);
    return key.domain.empty() && key.op_type == "Where" &&
           (holds(g, node.children[1], holds_minus_infinity) || holds(g, node.children[2], holds_minus_infinity));
  });
}

}  // namespace

bool holds_zeros_and_ones(const Tensor& t) {
  for (std::int64_t i = 0; i < t.size(); ++i)
    if (const auto x = element_as_double(t, i); !x || (*x != 0 && *x != 1)) return false;
  return true;
}

bool holds_minus_infinity(const Tensor& t) {
  for (std::int64_t i = 0; i < t.size(); ++i)
    if (const auto x = element_as_double(t, i); x && std::isinf(*x) && *x < 0) return true;
  return false;
}

bool hides_by_infinity(const OnnxEGraph& g, Id id) {
  if (holds(g, id, holds_minus_infinity)) return true;
  for (NodeId n : g.egraph().class_nodes(id)) {
    const ENode node = g.egraph().node(n);
    const OpKey& key = g.key(node.op);
    if (!key.domain.empty()) continue;
    if (key.op_type == "Expand" && chooses_infinity(g, node.children[0])) return true;
  }
  return chooses_infinity(g, id);
}

bool is_zero_or_one(const OnnxEGraph& g, Id id) { return MaskSearch(g, false).binary(id, kDeepest); }

bool may_be_mask(const OnnxEGraph& g, Id id) { return MaskSearch(g, true).binary(id, kDeepest); }

}  // namespace saturate
