#include "extract/units/coarse_units.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "extract/target/target_json.h"
#include "extract/units/node_units.h"
#include "onnx_bridge/convert/op_key.h"

namespace saturate {
namespace {

constexpr std::size_t kWeights = 1;  // the input of a product
constexpr std::string_view kMatMul = "MatMul";
// ONNX Runtime takes these out where they do nothing, before it looks for units.
constexpr std::array<std::string_view, 6> kTakenOutFirst{"Add", "Cast", "Div", "Dropout", "Mul", "Sub"};

const std::vector<NodeUnit>& coarse_units() {
  static const std::vector<NodeUnit> all = [] {
    std::vector<NodeUnit> out = builtin_target("ort-cpu")->node_units;
    std::erase_if(out, [](const NodeUnit& unit) { return !unit.coarse; });
    return out;
  }();
  return all;
}

bool is_few_bits(DType dtype) {
  return std::any_of(coarse_units().begin(), coarse_units().end(), [&](const NodeUnit& unit) {
    const auto& dtypes = unit.inputs[kWeights];
    return std::find(dtypes.begin(), dtypes.end(), dtype_name(dtype)) != dtypes.end();
  });
}

bool is_product(const OpKey& key) {
  return is_plain(key) && std::any_of(coarse_units().begin(), coarse_units().end(), [&](const NodeUnit& unit) {
           return unit.operators.contains(key.op_type) && refuse_attributes(unit.attributes, key.attributes).empty();
         });
}

}  // namespace

CoarseUnits::CoarseUnits(const OnnxEGraph& g, const Lowered& lowered) : g_(g), e_(g.egraph()), lowered_(lowered) {
  std::vector<const Source*> sources;
  for (const Source& s : lowered.sources)
    if (s.op != kNone) sources.push_back(&s);
  for (const auto& [before, s] : lowered.inlined)
    if (s.op != kNone) sources.push_back(&s);
  any_ = std::any_of(sources.begin(), sources.end(), [&](const Source* s) {
    return is_quantizer(g.key(s->op), "DequantizeLinear") && is_few_bits(g.facts(s->inputs[0]).dtype);
  });
  if (!any_) return;
  Makers makers;
  Readers readers;
  for (const Source* s : sources) {
    originals_.insert(node_signature(e_, s->op, s->children));
    for (const Id output : s->outputs)
      if (output != kNone) makers.try_emplace(output, s);
    for (const Id input : s->inputs) ++readers[input];
  }
  for (const Id root : lowered.roots) ++readers[root];
  std::erase_if(sources, [&](const Source* s) { return s->children.size() <= kWeights || !is_product(g.key(s->op)); });
  for (const Source* s : sources) note_product(*s, makers, readers);
  for (const Source* s : sources) {  // that came to the same weights by another way
    if (units_.contains(node_signature(e_, s->op, s->children))) continue;
    const Id weights = e_.find(s->children[kWeights]);
    of_any_.erase(weights), of_matmul_.erase(weights);
  }
}

void CoarseUnits::note_product(const Source& s, const Makers& makers, const Readers& readers) {
  Weights weights;
  if (!weights_of(s.children[kWeights], makers, readers, weights)) return;
  (weights.shared ? shared_ : units_).insert(node_signature(e_, s.op, s.children));
  if (weights.shared) return;
  of_any_.insert(e_.find(weights.dequantized));
  if (g_.key(s.op).op_type == kMatMul) of_matmul_.insert(e_.find(weights.dequantized));
}

bool CoarseUnits::weights_of(Id value, const Makers& makers, const Readers& readers, Weights& out) const {
  for (;;) {
    const auto maker = makers.find(value);
    if (maker == makers.end()) return false;
    const Source& s = *maker->second;
    const OpKey& key = g_.key(s.op);
    out.shared = out.shared || readers.at(value) > 1;
    if (is_quantizer(key, "DequantizeLinear")) {
      out.dequantized = value;
      return is_few_bits(g_.facts(s.inputs[0]).dtype) && g_.facts(s.inputs[0]).constant;
    }
    const bool goes = std::find(kTakenOutFirst.begin(), kTakenOutFirst.end(), key.op_type) != kTakenOutFirst.end();
    const auto same = std::find_if(s.inputs.begin(), s.inputs.end(), [&](Id in) { return e_.find(in) == e_.find(value); });
    if (!goes || same == s.inputs.end() || *same == value) return false;
    value = *same;
  }
}

bool CoarseUnits::is_dequantizer(const ENode& node) const {
  const OpKey& key = g_.key(node.op);
  if (!is_operator(key, "DequantizeLinear")) return false;
  const Facts& integers = g_.facts(node.children[0]);
  return integers.constant && is_few_bits(integers.dtype);
}

bool CoarseUnits::is_new(NodeId n) const {
  if (!any_) return false;
  const ENode node = e_.node(n);
  if (!is_product(g_.key(node.op)) || node.children.size() <= kWeights || units_.contains(node_signature(e_, node.op, node.children)))
    return false;
  const Facts& weights = g_.facts(node.children[kWeights]);
  if (weights.shape && weights.rank() != 2) return false;
  // What rules make of one of the model's with the same weights; a Gemm is a unit in fewer releases.
  const auto& known = g_.key(node.op).op_type == kMatMul ? of_matmul_ : of_any_;
  return is_original(node) || !known.contains(e_.find(node.children[kWeights]));
}

std::vector<CoarseUnits::Place> CoarseUnits::made_by(const Selection& selection) const {
  std::vector<Place> out;
  if (!any_) return out;
  const auto chosen = [&](Id id) {
    const Choice* choice = selection.find(e_.find(id));
    return choice && !choice->folded ? choice->node : kNone;
  };
  std::unordered_map<Id, int> readers;
  for (const Choice& choice : selection.by_class)
    if (choice.node != kNone && !choice.folded)
      for (const Id child : e_.node(choice.node).children) ++readers[e_.find(child)];
  for (const Id root : lowered_.roots) ++readers[e_.find(root)];
  for (const Choice& choice : selection.by_class) {
    if (choice.node == kNone || choice.folded || !is_new(choice.node)) continue;
    const ENode product = e_.node(choice.node);
    const Id weights = e_.find(product.children[kWeights]);
    const NodeId dequantizer = chosen(weights);
    if (dequantizer == kNone || !is_dequantizer(e_.node(dequantizer))) continue;
    const bool as_it_came = readers[weights] > 1 && shared_.contains(node_signature(e_, product.op, product.children));
    if (as_it_came && is_original(e_.node(dequantizer))) continue;
    Place place;
    if (is_original(e_.node(dequantizer))) {
      place.of_model = is_original(product);
      place.nodes.push_back(place.of_model ? dequantizer : choice.node);
    } else {
      for (const NodeId other : e_.class_nodes(weights))
        if (is_dequantizer(e_.node(other)) && !is_original(e_.node(other))) place.nodes.push_back(other);
    }
    out.push_back(std::move(place));
  }
  return out;
}

}  // namespace saturate
