#include "extract/target/kept_quantizers.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/canonical.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

// As many as a unit has: its quantizers, those of weights and bias, and itself. A target may refuse all of these, for a size that is not
// known.
constexpr double kBroken = 5;
// A view between a value and its quantizer: less than an operator that the target refuses for its rank, which such views mend.
constexpr double kParted = 0.5;
// A view of integers stands for itself between two quantizers, which say more to a compiler: it counts as more than these, as operators and
// as refused ones, and less than all that a target refuses around a view which mends a rank.
constexpr double kQuantizersOfView = 2.5;

bool is_quantizer_of_any(const OpKey& key) { return is_quantizer(key, "QuantizeLinear") || is_quantizer(key, "DequantizeLinear"); }

bool is_float_tensor(const Facts& f) { return f.kind == Facts::Kind::kTensor && is_floating(f.dtype); }

bool is_one_number(const OnnxEGraph& g, const Facts& f) {
  return f.constant && f.shape && std::ranges::all_of(*f.shape, [&](Dim d) { return g.dims().value(d) == 1; });
}

// Of the model: an operator, and the quantizers that alone read one of its results.
struct Quantized {
  const Source* op = nullptr;
  std::size_t output = 0;
  bool is_unit = false;  // its floats are all dequantized or constants
  std::vector<const Source*> quantizers;
};

// Who makes and who reads the values of the model, by their names: rules may have made one class of several.
class Values {
 public:
  Values(const OnnxEGraph& g, const Lowered& lowered) : g_(g) {
    for (const ValueInfo& output : lowered.model->graph.outputs) read_as_float_.insert(output.name);
    for (const Source& s : lowered.sources) {
      if (is(s, "DequantizeLinear")) dequantized_.insert(s.node->outputs[0]);
      for (std::size_t i = 0; i < s.node->inputs.size(); ++i)
        if (i == 0 && is(s, "QuantizeLinear"))
          quantizers_[s.node->inputs[i]].push_back(&s);
        else
          read_as_float_.insert(s.node->inputs[i]);
      read_as_float_.insert(s.captures.begin(), s.captures.end());
    }
  }

  std::vector<Quantized> around(const Source& s) const {
    std::vector<Quantized> out;
    if (s.op == kNone || s.children.size() != s.node->inputs.size()) return out;
    if (const OpKey& key = g_.key(s.op); is_quantizer_of_any(key) || key.version != 0 || key.unique != 0) return out;
    const bool is_unit = reads_dequantized(s);
    for (std::size_t i = 0; i < s.outputs.size(); ++i) {
      if (s.outputs[i] == kNone) continue;
      const auto quantizers = quantizers_.find(s.node->outputs[i]);
      if (quantizers != quantizers_.end() && !read_as_float_.contains(quantizers->first))
        out.push_back({&s, i, is_unit, quantizers->second});
    }
    return out;
  }

 private:
  bool reads_dequantized(const Source& s) const {
    bool any = false;
    for (std::size_t i = 0; i < s.children.size(); ++i) {
      const bool dequantized = dequantized_.contains(s.node->inputs[i]);
      const Facts& f = g_.facts(s.children[i]);
      if (!dequantized && is_float_tensor(f) && !f.constant) return false;
      any = any || dequantized;
    }
    return any;
  }
  static bool makes_one(const Source& s) { return s.outputs.size() == 1 && s.outputs[0] != kNone; }
  bool is(const Source& s, std::string_view quantizer) const {
    return s.op != kNone && makes_one(s) && is_quantizer(g_.key(s.op), quantizer);
  }

  const OnnxEGraph& g_;
  absl::flat_hash_set<std::string> dequantized_;
  absl::flat_hash_map<std::string, std::vector<const Source*>> quantizers_;
  absl::flat_hash_set<std::string> read_as_float_;
};

std::vector<Quantized> quantized_of(const OnnxEGraph& g, const Lowered& lowered) {
  const Values values(g, lowered);
  std::vector<Quantized> out;
  for (const Source& s : lowered.sources)
    for (Quantized& unit : values.around(s)) out.push_back(std::move(unit));
  return out;
}

}  // namespace

KeptQuantizers::KeptQuantizers(const OnnxEGraph& g, const Lowered& lowered) : g_(g), e_(g.egraph()) {
  for (const Source& s : lowered.sources) {
    if (s.op == kNone || s.outputs.size() != 1 || s.outputs[0] == kNone) continue;
    const OpKey& key = g.key(s.op);
    const Id id = e_.find(s.outputs[0]);
    if (is_quantizer(key, "DequantizeLinear") && !is_one_number(g, g.facts(id))) dequantized_.insert(id);
    if (!is_quantizer(key, "QuantizeLinear") || g.facts(id).constant) continue;
    for (const NodeId n : e_.class_nodes(id))
      if (is_quantizer(g.key(e_.node(n).op), "QuantizeLinear")) quantized_.insert_or_assign(id, e_.node(n));
  }
  note_what_weights_make();
  for (const Quantized& unit : quantized_of(g, lowered))
    if (unit.is_unit) {
      in_units_.insert(e_.find(unit.op->outputs[unit.output]));
      for (const Source* quantizer : unit.quantizers) of_units_.insert(e_.find(quantizer->outputs[0]));
    }
}

// Constants that are computed from quantized weights, a turned one for example.
void KeptQuantizers::note_what_weights_make() {
  std::vector<Id> open;
  const auto reach = [&](Id id) {
    const Facts& f = g_.facts(id);
    if (f.constant && is_float_tensor(f) && !is_one_number(g_, f) && of_weights_.insert(id).second) open.push_back(id);
  };
  for (const Id id : dequantized_) reach(id);
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    for (const NodeId user : e_.class_users(id)) reach(e_.find(e_.class_of(user)));
  }
}

bool KeptQuantizers::holds(Id id, std::string_view quantizer) const {
  return std::ranges::any_of(e_.class_nodes(e_.find(id)), [&](NodeId n) { return is_quantizer(g_.key(e_.node(n).op), quantizer); });
}

// Integers of several quantizers side by side, such as those of single heads.
bool KeptQuantizers::is_joined(const ENode& node) const {
  return is_of_standard(g_.key(node.op), "Concat") &&
         std::ranges::all_of(node.children, [&](Id child) { return holds(child, "QuantizeLinear"); });
}

// Integers of a quantizer, moved.
bool KeptQuantizers::is_quantized_view(const ENode& node) const {
  const OpKey& key = g_.key(node.op);
  if (node.children.empty()) return false;
  if (key.op_type != kProjOp || key.domain != "#") return has(Trait::kMovement, key) && holds(node.children[0], "QuantizeLinear");
  return std::ranges::any_of(e_.class_nodes(e_.find(node.children[0])), [&](NodeId n) {
    const ENode of = e_.node(n);
    return is_of_standard(g_.key(of.op), "Split") && holds(of.children[0], "QuantizeLinear");
  });
}

// Each float that it reads is dequantized, or a constant vector such as a bias.
bool KeptQuantizers::reads_dequantized(const ENode& node) const {
  if (g_.key(node.op).op_type == kProjOp)
    return std::ranges::any_of(e_.class_nodes(e_.find(node.children[0])), [&](NodeId n) { return reads_dequantized(e_.node(n)); });
  return std::ranges::all_of(node.children, [&](Id child) {
    const Facts& f = g_.facts(child);
    if (!is_float_tensor(f) || holds(child, "DequantizeLinear")) return true;
    return f.constant && f.shape && (f.shape->size() <= 1 || is_one_number(g_, f));
  });
}

// Whether some e-node of a class is an operator behind its dequantizers.
bool KeptQuantizers::is_of_unit(Id id) const {
  return std::ranges::any_of(e_.class_nodes(e_.find(id)), [&](NodeId n) {
    const ENode node = e_.node(n);
    return !is_quantizer_of_any(g_.key(node.op)) && !node.children.empty() && reads_dequantized(node);
  });
}

Price KeptQuantizers::surcharge(const CostModel& cost, Id id, const ENode& node, bool original) const {
  const OpKey& key = g_.key(node.op);
  if (key.role != UnitRole::kNone) return {};
  const double moved = has(Trait::kMovement, key) ? kParted : kBroken;
  if (dequantized_.contains(id)) {
    if (is_quantizer(key, "DequantizeLinear")) return {};
    // A rule found that the quantizers behind an operator change nothing: they are the operator's all the same.
    return {in_units_.contains(id) ? kBroken : moved, 0};
  }
  if (original) return {};
  if (const auto it = quantized_.find(id); it != quantized_.end()) {
    if (is_quantizer(key, "QuantizeLinear")) return {of_units_.contains(id) && !is_of_unit(node.children[0]) ? kBroken : 0, 0};
    if (is_joined(node)) return {};
    if (is_quantized_view(node)) return Price(1, cost.cost(g_, it->second, id)) * kQuantizersOfView;
    return {kBroken, 0};
  }
  return {in_units_.contains(id) && !reads_dequantized(node) ? moved : 0, 0};
}

Price KeptQuantizers::stored(Id id) const { return {of_weights_.contains(id) ? kBroken : 0, 0}; }

void add_kept_units(OnnxEGraph& g, const Lowered& lowered) {
  EGraph& e = g.egraph();
  const auto add_as = [&](UnitRole role, const Source& s, std::span<const Id> children) {
    OpKey key = g.key(s.op);
    key.role = role;
    return g.add(key, children);
  };
  // An operator that the model holds in an opset without it stays as it came, and there alone.
  const std::int64_t opset = lowered.model->opset("");
  const auto is_in_opset = [&](const Source* s) {
    std::vector<const Facts*> inputs;
    for (const Id input : s->inputs) inputs.push_back(&g.facts(input));
    return s->node && lowest_opset(*s->node, inputs).value_or(opset + 1) <= opset;
  };
  const auto is_one_with_its_dequantizer = [&](const Quantized& unit) {
    const Id id = e.find(unit.op->outputs[unit.output]);
    return std::ranges::any_of(e.class_nodes(id), [&](NodeId n) { return is_quantizer(g.key(e.node(n).op), "DequantizeLinear"); });
  };
  std::vector<std::pair<Id, Id>> equal;
  for (const Quantized& unit : quantized_of(g, lowered)) {
    if (!is_one_with_its_dequantizer(unit) || !is_in_opset(unit.op) || !std::ranges::all_of(unit.quantizers, is_in_opset)) continue;
    Id made = add_as(UnitRole::kPart, *unit.op, unit.op->children);
    if (g.key(unit.op->op).outputs != 1) made = g.project(made, static_cast<int>(unit.output));
    for (const Source* quantizer : unit.quantizers) {
      std::vector<Id> of(quantizer->children.begin(), quantizer->children.end());
      of[0] = made;
      equal.emplace_back(quantizer->outputs[0], add_as(UnitRole::kLast, *quantizer, of));
    }
  }
  for (const auto& [last, made] : equal) e.merge(last, made);
  if (!equal.empty()) e.rebuild();
}

}  // namespace saturate
