#include "rules/values/masks.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"
#include "rules/values/answers.h"
#include "rules/values/fills.h"
#include "rules/values/known_by_depth.h"

namespace saturate {
namespace {

constexpr int kDeepest = 8;

// Whether a complement times a low number, be it behind a view, is a mask of scores.
bool hides_scores(const OnnxEGraph& g, Id complement) {
  const EGraph& e = g.egraph();
  for (const NodeId user : e.class_users(complement)) {
    const ENode node = e.node(user);
    const OpKey& key = g.key(node.op);
    if (!key.domain.empty() || key.op_type != "Mul") continue;
    for (const Id factor : node.children) {
      const auto number = number_of(g, factor);
      if (number && *number <= kMayHide && reaches_scores(g, e.class_of(user))) return true;
    }
  }
  return false;
}

bool holds(const OnnxEGraph& g, Id id, bool (*test)(const Tensor&)) {
  if (!g.facts(id).constant) return false;
  const auto value = g.value(id, kMostMaskBytes);
  return value && test(*value);
}

// Whether the model uses an input as a truth value somewhere: as a bool, by comparing it with 0 or 1, or in a mask of scores.
bool is_used_as_truth(const OnnxEGraph& g, Id input) {
  const EGraph& e = g.egraph();
  const auto is_bit = [&g](Id id) {
    const auto number = number_of(g, id);
    return number == 0 || number == 1;
  };
  std::vector<Id> seen{e.find(input)};
  for (std::size_t i = 0; i < seen.size() && seen.size() < 64; ++i)
    for (const NodeId user : e.class_users(seen[i])) {
      const ENode node = e.node(user);
      const OpKey& key = g.key(node.op);
      const std::string& op = key.op_type;
      const Id made = e.find(e.class_of(user));
      if (!key.domain.empty()) continue;
      if (op == "Cast" && !is_floating(g.facts(made).dtype)) return true;
      if (op == "Equal" && std::any_of(node.children.begin(), node.children.end(), is_bit)) return true;
      if (op == "Sub" && number_of(g, node.children[0]) == 1 && hides_scores(g, made)) return true;
      const bool view = op == "Cast" || has(Trait::kMovement, key);
      if (view && e.find(node.children[0]) == seen[i] && std::find(seen.begin(), seen.end(), made) == seen.end()) seen.push_back(made);
    }
  return false;
}

class MaskSearch {
 public:
  MaskSearch(Look& look, bool inputs) : look_(look), g_(look.graph()), inputs_(inputs) {}

  bool binary(Id id, int depth) {
    const Facts& facts = look_.facts(id);
    if (facts.dtype == DType::kBool) return true;
    return known_.of(g_.egraph().find(id), depth, [&] {
      if (facts.constant) return holds(g_, id, holds_zeros_and_ones);
      if (depth == 0) return false;
      const std::vector<NodeId> nodes = look_.nodes(id);
      return std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) { return of_node(g_.egraph().node(n), id, facts.dtype, depth - 1); });
    });
  }

 private:
  bool of_node(const ENode& node, Id id, DType dtype, int depth) {
    const OpKey& key = g_.key(node.op);
    const std::string& op = key.op_type;
    if (key.domain == "#") return inputs_ && op == kInputOp && is_used_as_truth(g_, id);
    if (!key.domain.empty() || node.children.empty()) return false;
    if (op == "ConstantOfShape") {
      const Attribute* value = find_attribute(key.attributes, "value");
      return value && holds_zeros_and_ones(value->t());
    }
    if (op == "Cast" && inputs_ && g_.facts(node.children[0]).dtype != dtype) return without_inputs().binary(node.children[0], depth);
    const bool first_only = op == "Cast" || op == "Trilu" || has(Trait::kMovement, key);
    if (!first_only && op != "Mul" && !has(Trait::kSelection, key)) return false;
    const std::size_t count = first_only ? 1 : node.children.size();
    return std::all_of(node.children.begin(), node.children.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](Id child) { return binary(child, depth); });
  }

  MaskSearch& without_inputs() {
    if (!without_inputs_) without_inputs_ = std::make_unique<MaskSearch>(look_, false);
    return *without_inputs_;
  }

  Look& look_;
  const OnnxEGraph& g_;
  bool inputs_;
  KnownByDepth known_;
  std::unique_ptr<MaskSearch> without_inputs_;
};

bool chooses_infinity(Look& look, Id id) {
  const OnnxEGraph& g = look.graph();
  const std::vector<NodeId> nodes = look.nodes(id);
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) {
    const ENode node = g.egraph().node(n);
    const OpKey& key = g.key(node.op);
    if (!key.domain.empty() || key.op_type != "Where") return false;
    look.facts(node.children[1]);
    look.facts(node.children[2]);
    return holds(g, node.children[1], holds_minus_infinity) || holds(g, node.children[2], holds_minus_infinity);
  });
}

bool hides_by_infinity(Look& look, Id id) {
  const OnnxEGraph& g = look.graph();
  if (holds(g, id, holds_minus_infinity)) return true;
  for (NodeId n : look.nodes(id)) {
    const ENode node = g.egraph().node(n);
    const OpKey& key = g.key(node.op);
    if (key.domain.empty() && key.op_type == "Expand" && chooses_infinity(look, node.children[0])) return true;
  }
  return chooses_infinity(look, id);
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
  struct HidesByInfinity;
  return Answers<HidesByInfinity, Proven>::of(g, id, [id](Look& look) { return proven_if(hides_by_infinity(look, id)); }).has_value();
}

bool is_zero_or_one(const OnnxEGraph& g, Id id) {
  return Answers<MaskSearch, Proven>::of(g, id, [id](Look& look) { return proven_if(MaskSearch(look, false).binary(id, kDeepest)); })
      .has_value();
}

bool may_be_mask(const OnnxEGraph& g, Id id) {  // this looks at users too, so that the answer may change with more than what it reads
  Look look(g);
  return MaskSearch(look, true).binary(id, kDeepest);
}

}  // namespace saturate
