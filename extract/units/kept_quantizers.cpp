#include "extract/units/kept_quantizers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"
#include "onnx_bridge/opsets/canonical.h"
#include "rules/values/heads.h"

namespace saturate {
namespace {

// As many as a unit has: its quantizers, those of weights and bias, and itself. A target may refuse all of these, for a size that is not
// known.
constexpr double kBroken = 5;
// A view between a value and its quantizer: less than an operator that the target refuses for its rank, which such views mend.
constexpr double kParted = 0.5;
// A view of integers or of floats stands for itself between quantizers, which say more to a compiler: it counts as more than these, as
// operators and as refused ones, and less than all that a target refuses around a view which mends a rank.
constexpr double kMoreThanQuantizers = 0.5;
constexpr double kQuantizersOfView = 2 + kMoreThanQuantizers;

bool is_quantizer_of_any(const OpKey& key) { return is_quantizer(key, "QuantizeLinear") || is_quantizer(key, "DequantizeLinear"); }

// All elements, in another shape or order.
bool turns(const OpKey& key) { return is_of_standard(key, "Reshape") || is_of_standard(key, "Transpose"); }

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

bool holds_quantizer(const OnnxEGraph& g, Id id, std::string_view quantizer) {
  const EGraph& e = g.egraph();
  return std::ranges::any_of(e.class_nodes(e.find(id)), [&](NodeId n) { return is_quantizer(g.key(e.node(n).op), quantizer); });
}

// Whether a quantizer has these: its scale, and its zero point if it has one.
bool has_parameters(const EGraph& e, const ENode& quantizer, std::span<const Id> parameters) {
  const auto find = [&](Id id) { return e.find(id); };
  return std::ranges::equal(quantizer.children | std::views::drop(1), parameters, {}, find, find);
}

Id in_role(OnnxEGraph& g, UnitRole role, OpId op, std::span<const Id> children) {
  OpKey key = g.key(op);
  key.role = role;
  return g.add(key, children);
}

// DequantizeLinear by one scale that no product or quotient of a float leaves, so that QuantizeLinear by it gives the same integers.
bool keeps_integers(const OnnxEGraph& g, const ENode& dequantize, Id made) {
  if (dequantize.children.size() != 3) return false;
  const Facts &of = g.facts(dequantize.children[0]), &scale = g.facts(dequantize.children[1]);
  const bool is_small = of.dtype == DType::kInt8 || of.dtype == DType::kUint8 || of.dtype == DType::kInt16 || of.dtype == DType::kUint16;
  if (!is_small || of.constant || g.facts(made).dtype != DType::kFloat || !scale.value || scale.dtype != DType::kFloat || scale.rank() != 0)
    return false;
  const float by = scale.value->data<float>()[0];
  return by >= 1e-30F && by <= 1e30F;
}

// QuantizeLinear that divides floats as floats.
bool divides_floats(const OnnxEGraph& g, const ENode& quantize) {
  const Attribute* precision = find_attribute(g.key(quantize.op).attributes, "precision");
  const auto is_float = [&](Id id) { return g.facts(id).dtype == DType::kFloat; };
  return quantize.children.size() == 3 && is_float(quantize.children[0]) && is_float(quantize.children[1]) &&
         (!precision || precision->i() <= 1);
}

// Finds integers, quantized by one scale, that rules made by a view or a Concat, and gives each a second form: DequantizeLinear, the view,
// QuantizeLinear. Of a Concat each part is quantized so, if it is not quantized otherwise.
class ViewsOfIntegers {
 public:
  explicit ViewsOfIntegers(OnnxEGraph& g) : g_(g), e_(g.egraph()) {}

  std::vector<std::pair<Id, Id>> find() {
    std::vector<NodeId> dequantized;
    for (const Id id : e_.classes())
      for (const NodeId n : e_.class_nodes(id)) {
        const ENode node = e_.node(n);
        if (is_quantizer(g_.key(node.op), "QuantizeLinear") && divides_floats(g_, node))
          quantizers_.try_emplace({e_.find(node.children[1]), e_.find(node.children[2])}, node.op);
        if (is_quantizer(g_.key(node.op), "DequantizeLinear") && keeps_integers(g_, node, id)) dequantized.push_back(n);
      }
    for (const NodeId n : dequantized) note(n);
    for (const View& view : views_) add(view);
    for (const Joined& joined : joined_) add(joined);
    while (!floats_.empty()) {
      const Floats next = floats_.back();
      floats_.pop_back();
      add_views(next);
    }
    return std::move(found_);
  }

 private:
  struct View {
    NodeId dequantize, view;
    OpId quantize;
  };
  struct Joined {
    NodeId dequantize, concat;
    OpId quantize;
  };
  // A value that a DequantizeLinear makes, and the operators of its parameters.
  struct Floats {
    Id id, dequantized;
    OpId dequantize, quantize;
    Id scale, zero;
  };

  // What moves the integers of a DequantizeLinear or its floats, and what they are the Concat of.
  void note(NodeId dequantize) {
    const ENode node = e_.node(dequantize);
    const Id integers = e_.find(node.children[0]), floats = e_.find(e_.class_of(dequantize)), scale = node.children[1],
             zero = node.children[2];
    const auto quantize = quantizers_.find({e_.find(scale), e_.find(zero)});
    if (quantize == quantizers_.end()) return;
    for (const NodeId user : e_.class_users(integers)) {
      const ENode view = e_.node(user);
      if (is_plain_view(g_.key(view.op)) && e_.find(view.children[0]) == integers) views_.push_back({dequantize, user, quantize->second});
    }
    floats_.push_back({floats, floats, node.op, quantize->second, scale, zero});
    const auto note_joined = [&](Id made) {
      for (const NodeId n : e_.class_nodes(e_.find(made)))
        if (is_of_standard(g_.key(e_.node(n).op), "Concat")) joined_.push_back({dequantize, n, quantize->second});
    };
    note_joined(integers);
    for (const NodeId n : e_.class_nodes(integers))
      if (is_quantizer_by(n, scale, zero)) note_joined(e_.node(n).children[0]);
  }

  static bool is_plain_view(const OpKey& key) { return key.role == UnitRole::kNone && has(Trait::kMovement, key); }

  bool is_quantized_by(Id id, Id scale, Id zero) const {
    return std::ranges::any_of(e_.class_nodes(e_.find(id)), [&](NodeId n) { return is_quantizer_by(n, scale, zero); });
  }

  bool is_quantizer_by(NodeId n, Id scale, Id zero) const {
    const ENode node = e_.node(n);
    return is_quantizer(g_.key(node.op), "QuantizeLinear") && is_by(node, scale, zero);
  }

  bool is_by(const ENode& quantizer, Id scale, Id zero) const { return has_parameters(e_, quantizer, std::array{scale, zero}); }

  void add(const View& v) {
    const OpId op = e_.node(v.view).op;
    const std::vector<Id> integers = children_of(v.dequantize);
    std::vector<Id> of = children_of(v.view);
    of[0] = e_.class_of(v.dequantize);
    const int outputs = g_.key(op).outputs;
    for (int i = 0; i < outputs; ++i) {
      const Id made = outputs == 1 ? e_.class_of(v.view) : g_.project(e_.class_of(v.view), i);
      Id part = in_role(g_, UnitRole::kPart, op, of);
      if (outputs != 1) part = g_.project(part, i);
      found_.emplace_back(made, in_role(g_, UnitRole::kLast, v.quantize, std::array{part, integers[1], integers[2]}));
    }
  }

  // Of floats that rules turned, such as those of single heads, nobody has made the integers.
  void add_views(const Floats& f) {
    std::vector<NodeId> views;
    for (const NodeId user : e_.class_users(e_.find(f.id))) {
      const ENode view = e_.node(user);
      if (turns(g_.key(view.op)) && g_.key(view.op).role == UnitRole::kNone && e_.find(view.children[0]) == e_.find(f.id))
        views.push_back(user);
    }
    for (const NodeId view : views) {
      const Id made = e_.find(e_.class_of(view));
      if (g_.facts(made).constant || !turned_.insert(view).second) continue;
      std::vector<Id> of = children_of(view);
      of[0] = f.dequantized;
      const Id part = in_role(g_, UnitRole::kPart, e_.node(view).op, of);
      const Id integers = in_role(g_, UnitRole::kLast, f.quantize, std::array{part, f.scale, f.zero});
      if (const Id known = integers_of(made, f.scale, f.zero); known != kNone) {  // their QuantizeLinear may be that of these very floats
        found_.emplace_back(known, integers);
        continue;
      }
      const Id again = g_.add(g_.key(f.dequantize), std::array{integers, f.scale, f.zero});
      found_.emplace_back(made, again);
      floats_.push_back({made, again, f.dequantize, f.quantize, f.scale, f.zero});
    }
  }

  void add(const Joined& j) {
    const OpId op = e_.node(j.concat).op, dequantize = e_.node(j.dequantize).op;
    const std::vector<Id> integers = children_of(j.dequantize);
    std::vector<Id> of = children_of(j.concat);
    for (Id& part : of) {
      if (is_float_tensor(g_.facts(part))) {
        if (g_.facts(part).constant || holds_quantizer(g_, part, "DequantizeLinear")) continue;
        part = g_.add(g_.key(j.quantize), std::array{part, integers[1], integers[2]});
      } else if (!is_quantized_by(part, integers[1], integers[2])) {
        return;
      }
      part = g_.add(g_.key(dequantize), std::array{part, integers[1], integers[2]});
    }
    const Id part = in_role(g_, UnitRole::kPart, op, of);
    found_.emplace_back(integers[0], in_role(g_, UnitRole::kLast, j.quantize, std::array{part, integers[1], integers[2]}));
  }

  Id integers_of(Id dequantized, Id scale, Id zero) const {
    for (const NodeId n : e_.class_nodes(e_.find(dequantized)))
      if (const ENode node = e_.node(n); is_quantizer(g_.key(node.op), "DequantizeLinear") && is_by(node, scale, zero))
        return node.children[0];
    return kNone;
  }

  std::vector<Id> children_of(NodeId n) const {
    const ENode node = e_.node(n);
    return {node.children.begin(), node.children.end()};
  }

  OnnxEGraph& g_;
  EGraph& e_;
  absl::flat_hash_map<std::pair<Id, Id>, OpId> quantizers_;  // by scale and zero point
  std::vector<View> views_;
  std::vector<Joined> joined_;
  std::vector<Floats> floats_;
  absl::flat_hash_set<NodeId> turned_;
  std::vector<std::pair<Id, Id>> found_;
};

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
  for (const Id root : lowered.roots) outputs_.insert(e_.find(root));
  for (const Quantized& unit : quantized_of(g, lowered))
    if (unit.is_unit) {
      const Id id = e_.find(unit.op->outputs[unit.output]);
      in_units_.insert(id);
      if (!has(Trait::kMovement, g.key(unit.op->op))) computed_.insert(id);
      for (const Source* quantizer : unit.quantizers) of_units_.insert(e_.find(quantizer->outputs[0]));
    }
  reach_other_forms();
}

// The heads of a value that has been taken apart, and the value in another shape or order.
void KeptQuantizers::reach_other_forms() {
  absl::flat_hash_set<Id> integers;
  for (const auto& [id, node] : quantized_) integers.insert(id);
  also_dequantized_ = dequantized_;
  reach_other_forms(also_dequantized_, {});
  reach_other_forms(in_units_, also_dequantized_);
  reach_other_forms(of_units_, {});
  reach_other_forms(integers, {});
  for (const Id id : integers)
    for (const NodeId n : e_.class_nodes(id))
      if (is_quantizer(g_.key(e_.node(n).op), "QuantizeLinear")) quantized_.try_emplace(id, e_.node(n));
}

void KeptQuantizers::reach_other_forms(absl::flat_hash_set<Id>& values, const absl::flat_hash_set<Id>& others) const {
  std::vector<Id> open(values.begin(), values.end());
  const auto reach = [&](Id id) {
    const Id known = e_.find(id);
    if (!g_.facts(known).constant && !others.contains(known) && values.insert(known).second) open.push_back(known);
  };
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (const HeadsApart* heads = g_.notes<HeadNotes>().find(g_, id)) std::ranges::for_each(heads->parts, reach);
    for (const NodeId n : e_.class_nodes(id))
      if (const ENode node = e_.node(n); turns(g_.key(node.op))) reach(node.children[0]);
    for (const NodeId user : e_.class_users(id))
      if (const ENode node = e_.node(user); turns(g_.key(node.op)) && e_.find(node.children[0]) == id) reach(e_.class_of(user));
  }
}

// Constants that are computed from quantized weights, a turned one for example.
void KeptQuantizers::note_what_weights_make() {
  std::vector<Id> open;
  absl::flat_hash_set<Id> tuples;
  const auto reach = [&](Id id) {
    const Facts& f = g_.facts(id);
    const bool is_new = f.kind == Facts::Kind::kTensor
                            ? f.constant && is_float_tensor(f) && !is_one_number(g_, f) && of_weights_.insert(id).second
                            : tuples.insert(id).second;
    if (is_new) open.push_back(id);
  };
  for (const Id id : dequantized_) reach(id);
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    for (const NodeId user : e_.class_users(id)) reach(e_.find(e_.class_of(user)));
  }
}

// Integers of several quantizers side by side, such as those of single heads.
bool KeptQuantizers::is_joined(const ENode& node) const {
  return is_of_standard(g_.key(node.op), "Concat") &&
         std::ranges::all_of(node.children, [&](Id child) { return holds_quantizer(g_, child, "QuantizeLinear"); });
}

// Integers of a quantizer, moved.
bool KeptQuantizers::is_quantized_view(const ENode& node) const {
  const OpKey& key = g_.key(node.op);
  if (node.children.empty()) return false;
  if (key.op_type != kProjOp || key.domain != "#")
    return has(Trait::kMovement, key) && holds_quantizer(g_, node.children[0], "QuantizeLinear");
  return std::ranges::any_of(e_.class_nodes(e_.find(node.children[0])), [&](NodeId n) {
    const ENode of = e_.node(n);
    return is_of_standard(g_.key(of.op), "Split") && holds_quantizer(g_, of.children[0], "QuantizeLinear");
  });
}

// Each float that it reads is dequantized, or a constant vector such as a bias.
bool KeptQuantizers::reads_dequantized(const ENode& node) const {
  if (g_.key(node.op).op_type == kProjOp)
    return std::ranges::any_of(e_.class_nodes(e_.find(node.children[0])), [&](NodeId n) { return reads_dequantized(e_.node(n)); });
  return std::ranges::all_of(node.children, [&](Id child) {
    const Facts& f = g_.facts(child);
    if (!is_float_tensor(f) || holds_quantizer(g_, child, "DequantizeLinear")) return true;
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

// Of a Concat in front of a QuantizeLinear, the parts that are dequantized by other parameters: a compiler converts each.
double KeptQuantizers::converted_parts(const ENode& quantize) const {
  const auto is_converted = [&](Id part) {
    bool any = false;
    for (const NodeId n : e_.class_nodes(e_.find(part)))
      if (const ENode node = e_.node(n); is_quantizer(g_.key(node.op), "DequantizeLinear")) {
        if (has_parameters(e_, node, quantize.children.subspan(1))) return false;
        any = true;
      }
    return any;
  };
  for (const NodeId n : e_.class_nodes(e_.find(quantize.children[0])))
    if (const ENode node = e_.node(n); is_of_standard(g_.key(node.op), "Concat"))
      return static_cast<double>(std::ranges::count_if(node.children, is_converted));
  return 0;
}

Price KeptQuantizers::surcharge(const CostModel& cost, Id id, const ENode& node, bool original) const {
  const OpKey& key = g_.key(node.op);
  const Price converts = is_quantizer(key, "QuantizeLinear") ? Price(0, cost.cost(g_, node, id) * converted_parts(node)) : Price();
  if (key.role != UnitRole::kNone) return converts;
  const double moved = has(Trait::kMovement, key) ? kParted : kBroken;
  if (dequantized_.contains(id)) {
    if (is_quantizer(key, "DequantizeLinear")) return {};
    // A rule found that the quantizers behind an operator change nothing: they are the operator's all the same.
    if (!in_units_.contains(id)) return {moved, 0};
    return {outputs_.contains(id) && !computed_.contains(id) ? std::max(moved, kQuantizersOfView) : kBroken, 0};
  }
  if (original) return converts;
  if (also_dequantized_.contains(id)) return {is_quantizer(key, "DequantizeLinear") ? 0 : std::max(moved, kQuantizersOfView), 0};
  if (const auto it = quantized_.find(id); it != quantized_.end()) {
    if (is_quantizer(key, "QuantizeLinear"))
      return converts + Price(of_units_.contains(id) && !is_of_unit(node.children[0]) ? kBroken : 0, 0);
    const Price quantizer(1, cost.cost(g_, it->second, id));
    if (is_joined(node)) return quantizer * (static_cast<double>(node.children.size()) + kMoreThanQuantizers);
    if (is_quantized_view(node)) return quantizer * kQuantizersOfView;
    return {kBroken, 0};
  }
  return {in_units_.contains(id) && !reads_dequantized(node) ? moved : 0, 0};
}

Price KeptQuantizers::stored(Id id) const { return {of_weights_.contains(id) ? kBroken : 0, 0}; }

void add_kept_units(OnnxEGraph& g, const Lowered& lowered) {
  EGraph& e = g.egraph();
  const auto add_as = [&](UnitRole role, const Source& s, std::span<const Id> children) { return in_role(g, role, s.op, children); };
  // An operator that the model holds in an opset without it stays as it came, and there alone.
  const std::int64_t opset = lowered.model->opset("");
  const auto is_in_opset = [&](const Source* s) {
    std::vector<const Facts*> inputs;
    for (const Id input : s->inputs) inputs.push_back(&g.facts(input));
    return s->node && lowest_opset(*s->node, inputs).value_or(opset + 1) <= opset;
  };
  const auto is_one_with_its_dequantizer = [&](const Quantized& unit) {
    return holds_quantizer(g, unit.op->outputs[unit.output], "DequantizeLinear");
  };
  std::vector<std::pair<Id, Id>> equal = ViewsOfIntegers(g).find();
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
