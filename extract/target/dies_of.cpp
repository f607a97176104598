#include "extract/target/dies_of.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "absl/container/flat_hash_set.h"
#include "egraph/text/read_json.h"
#include "extract/runtimes/builtin.h"

namespace saturate {
namespace {

// An operator that reads, as its first input or as any of a product, the value of the step before.
struct Step {
  std::set<std::string> operators;  // of the standard
  std::set<std::string> dtypes;     // of what it makes; empty: any
  bool repeats = false;             // several of them, one behind the other
  bool moves_first_axis = false;    // of a Transpose: in between the last two, the others stay in order
  bool with_matrix = false;         // of a product: the other operand is a matrix, this one none
  bool with_other_rank = false;     // of a product: the operands have several ranks, and this one is no matrix
  bool known_sizes = false;         // of a product: all sizes of both operands are numbers
  bool with_row = false;            // of a sum: the other operand has one dim
  bool by_body = false;             // a body of the operator reads the value, whatever the operator
  std::set<std::string> but;        // not empty: any operator but these, or an output of the graph
  std::set<std::string> from;       // dtypes of what it reads; empty: any
  bool one_scale = false;           // of a quantizer or dequantizer: its scale and its zero point are constants of one element
  bool zero_point = false;          // of a dequantizer: it has one
  bool no_constant = false;         // what it reads is none
  bool read_once = false;           // what it makes (one of several) is read once
  bool per_axis = false;            // of a quantizer: it has several scales
  bool any_input = false;           // the step before makes any of its inputs, not only the first
  bool integer_bias = false;        // it has no third input, or a dequantized one
  bool beside_dequantized = false;  // of a product: the other operand is dequantized, too
  int rank_beyond = 0;              // not 0: what it makes has more dims
};

struct DeadlyShape {
  std::vector<Step> steps;
  std::string before, because;  // the first release that loads it again
  std::int64_t opset = 0;       // of ai.onnx, from which on it is one
};

Step read_step(const nlohmann::json& s) {
  const auto names = [&](const char* key) { return s.value(key, std::set<std::string>()); };
  const auto holds = [&](const char* key) { return s.value(key, false); };
  return {.operators = names("operators"),
          .dtypes = names("dtypes"),
          .repeats = holds("repeats"),
          .moves_first_axis = holds("moves_first_axis"),
          .with_matrix = holds("with_matrix"),
          .with_other_rank = holds("with_other_rank"),
          .known_sizes = holds("known_sizes"),
          .with_row = holds("with_row"),
          .by_body = holds("by_body"),
          .but = names("but"),
          .from = names("from"),
          .one_scale = holds("one_scale"),
          .zero_point = holds("zero_point"),
          .no_constant = holds("no_constant"),
          .read_once = holds("read_once"),
          .per_axis = holds("per_axis"),
          .any_input = holds("any_input"),
          .integer_bias = holds("integer_bias"),
          .beside_dequantized = holds("beside_dequantized"),
          .rank_beyond = s.value("rank_beyond", 0)};
}

std::vector<DeadlyShape> read_shapes() {
  std::vector<DeadlyShape> out;
  const nlohmann::json shapes = *read_json(kDiesOf);
  for (const auto& entry : shapes) {
    DeadlyShape shape{{}, entry.value("before", std::string()), entry.at("because"), entry.value("opset", std::int64_t{0})};
    for (const auto& step : entry.at("steps")) shape.steps.push_back(read_step(step));
    out.push_back(std::move(shape));
  }
  return out;
}

const std::vector<DeadlyShape>& shapes() {
  static const std::vector<DeadlyShape> all = read_shapes();
  return all;
}

constexpr const char* kOutput = "#output";

// An operator of a graph, whose values have any ids; kOutput: an output of the graph reads it.
struct Placed {
  NodeId node = kNone;
  std::string op_type;
  const std::vector<Attribute>* attributes = nullptr;
  std::vector<Id> inputs, captures;
};

class Graphed {
 public:
  explicit Graphed(const OnnxEGraph& g) : g_(g) {}

  void add_outputs(const std::vector<Id>& roots) {
    for (const Id root : roots) add({kNone, kOutput, nullptr, {root}, {}}, kNone);
  }

  void add(Placed node, Id made) {
    if (made != kNone) makers_.try_emplace(made, nodes_.size());
    for (const auto& read : {std::span(node.inputs), std::span(node.captures)})
      for (const Id value : read) ++readers_[value];
    nodes_.push_back(std::move(node));
  }

  // Of each place, its operators, readers first.
  std::vector<std::vector<const Placed*>> find(const DeadlyShape& shape) const {
    std::vector<std::vector<const Placed*>> out;
    const std::size_t last = shape.steps.size() - 1;
    const Step& step = shape.steps[last];
    for (const Placed& node : nodes_) {
      const bool any = step.by_body || !step.but.empty();
      if (any ? step.but.contains(node.op_type) : !step.operators.contains(node.op_type)) continue;
      const std::vector<Id>& read = step.by_body ? node.captures : node.inputs;
      for (std::size_t i = 0; i < read.size(); ++i) {
        std::vector<const Placed*> place{&node};
        if ((any || may_read(step, node, i)) && leads(shape, last - 1, read[i], place, false)) out.push_back(std::move(place));
      }
    }
    return out;
  }

 private:
  static constexpr std::size_t kMostSteps = 16;

  const Facts& facts(Id id) const { return g_.facts(g_.egraph().find(id)); }

  bool read_once(Id value) const {
    const auto found = readers_.find(value);
    return found != readers_.end() && found->second == 1;
  }

  bool may_read(const Step& step, const Placed& node, std::size_t i) const {
    if (step.per_axis && !has_several_scales(node)) return false;
    return (i == 0 || step.any_input || step.with_matrix || step.with_other_rank || step.with_row) && stands_beside(step, node, i);
  }

  // Whether the other operand than input `i` is as the step says.
  bool stands_beside(const Step& step, const Placed& node, std::size_t i) const {
    if (step.beside_dequantized && !(node.inputs.size() == 2 && is_dequantized(node.inputs[1 - i]))) return false;
    if (!step.with_matrix && !step.with_other_rank && !step.with_row) return true;
    const int other = rank_beside(node, i);
    if (other == kNoRank) return false;
    const int mine = rank_of(node.inputs[i]);
    if (step.with_matrix) return other == 2 && mine != 2;
    if (step.with_row) return other == 1;
    return mine > 2 && other != mine;
  }

  static constexpr int kNoRank = -1;
  int rank_of(Id value) const { return facts(value).shape ? facts(value).rank() : kNoRank; }
  // Of an operator of two inputs, the rank of the one that is not input `i`.
  int rank_beside(const Placed& node, std::size_t i) const { return node.inputs.size() == 2 ? rank_of(node.inputs[1 - i]) : kNoRank; }

  bool is(const Step& step, const Placed& node, Id value) const {
    if (!step.operators.contains(node.op_type)) return false;
    if (!step.dtypes.empty() && !step.dtypes.contains(std::string(dtype_name(facts(value).dtype)))) return false;
    if (!step.from.empty() && (node.inputs.empty() || !step.from.contains(std::string(dtype_name(facts(node.inputs[0]).dtype)))))
      return false;
    if (step.one_scale && !has_one_scale(node)) return false;
    if (step.no_constant && (node.inputs.empty() || facts(node.inputs[0]).constant)) return false;
    if (step.zero_point && (node.inputs.size() < 3 || facts(node.inputs[2]).kind == Facts::Kind::kAbsent)) return false;
    if (step.per_axis && !has_several_scales(node)) return false;
    if (step.rank_beyond && rank_of(value) <= step.rank_beyond) return false;
    if (!stands_beside(step, node, 0)) return false;
    const auto is_of_known_size = [&](Id id) { return known_bytes(facts(id), g_.dims()).has_value(); };
    if (step.known_sizes && !std::ranges::all_of(node.inputs, is_of_known_size)) return false;
    if (step.integer_bias && node.inputs.size() > 2 && !is_dequantized(node.inputs[2])) return false;
    return !step.moves_first_axis || moves_first_axis(node);
  }

  bool is_dequantized(Id value) const {
    const auto maker = makers_.find(value);
    return facts(value).kind == Facts::Kind::kAbsent || (maker != makers_.end() && nodes_[maker->second].op_type == "DequantizeLinear");
  }

  bool has_several_scales(const Placed& node) const {
    if (node.inputs.size() < 2) return false;
    const Facts& scale = facts(node.inputs[1]);
    return scale.shape && !std::ranges::all_of(*scale.shape, [&](Dim d) { return g_.dims().value(d) == 1; });
  }

  bool has_one_scale(const Placed& node) const {
    return node.inputs.size() > 1 && std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](Id id) {
             const Facts& f = facts(id);
             if (f.kind == Facts::Kind::kAbsent) return true;
             return f.constant && f.shape && std::ranges::all_of(*f.shape, [&](const Dim& d) { return g_.dims().value(d) == 1; });
           });
  }

  static bool moves_first_axis(const Placed& node) {
    const Attribute* perm = find_attribute(*node.attributes, "perm");
    if (!perm || perm->ints().size() < 3) return false;
    const auto& p = perm->ints();
    for (std::size_t i = 0; i + 2 < p.size(); ++i)
      if (p[i] != static_cast<std::int64_t>(i) + 1) return false;
    return true;
  }

  // `once`: something of this step that stands behind is read once.
  bool leads(const DeadlyShape& shape, std::size_t step, Id value, std::vector<const Placed*>& place, bool once) const {
    const auto maker = makers_.find(value);
    if (maker == makers_.end() || place.size() > kMostSteps) return false;
    const Placed& node = nodes_[maker->second];
    if (!is(shape.steps[step], node, value)) return false;
    once = once || read_once(value);
    place.push_back(&node);
    const bool as_often = !shape.steps[step].read_once || once;
    if (step == 0 && as_often) return true;
    if (step != 0 && !node.inputs.empty()) {
      if (shape.steps[step].repeats && leads(shape, step, node.inputs[0], place, once)) return true;
      if (as_often)
        for (std::size_t i = 0; i < (shape.steps[step].any_input ? node.inputs.size() : 1); ++i)
          if (leads(shape, step - 1, node.inputs[i], place, false)) return true;
    }
    place.pop_back();
    return false;
  }

  const OnnxEGraph& g_;
  std::vector<Placed> nodes_;
  std::unordered_map<Id, std::size_t> makers_, readers_;
};

Graphed as_it_came(const OnnxEGraph& g, const Lowered& lowered) {
  Graphed out(g);
  for (const Source& s : lowered.sources) {
    if (!s.node || s.outputs.empty() || s.outputs[0] == kNone) continue;
    const auto own = s.inputs.end() - static_cast<std::ptrdiff_t>(s.captures.size());
    out.add({kNone, s.node->domain.empty() ? s.node->op_type : "", &s.node->attributes, {s.inputs.begin(), own}, {own, s.inputs.end()}},
            s.outputs[0]);
  }
  out.add_outputs(lowered.roots);
  return out;
}

Graphed as_chosen(const OnnxEGraph& g, const Lowered& lowered, const Selection& selection) {
  const EGraph& e = g.egraph();
  Graphed out(g);
  for (Id id = 0; id < selection.by_class.size(); ++id) {
    const Choice& choice = selection.by_class[id];
    if (choice.folded || choice.node == kNone) continue;
    const ENode node = e.node(choice.node);
    const OpKey& key = g.key(node.op);
    const auto sources = lowered.by_op.find(node.op);
    const std::size_t captured = sources == lowered.by_op.end() ? 0 : lowered.sources[sources->second[0]].captures.size();
    Placed placed{choice.node, key.domain.empty() ? key.op_type : "", &key.attributes, {}, {}};
    for (const Id child : node.children) placed.inputs.push_back(e.find(child));
    const auto own = placed.inputs.end() - static_cast<std::ptrdiff_t>(std::min(captured, placed.inputs.size()));
    placed.captures.assign(own, placed.inputs.end());
    placed.inputs.erase(own, placed.inputs.end());
    out.add(std::move(placed), e.find(id));
  }
  for (const Id root : lowered.roots) out.add_outputs({e.find(root)});
  return out;
}

}  // namespace

std::vector<DeadlyPlace> deadly_places(const OnnxEGraph& g, const Lowered& lowered, const Selection& selection, const Target& target,
                                       const OpsetsOfResult& opsets) {
  const EGraph& e = g.egraph();
  std::vector<DeadlyPlace> out;
  const Graphed chosen = as_chosen(g, lowered, selection);
  for (const DeadlyShape& shape : shapes()) {
    if (opsets.written < shape.opset) continue;
    if (!shape.before.empty() && target.release && !is_before(target.release->version, shape.before)) continue;
    const auto places = chosen.find(shape);
    if (places.empty()) continue;
    if (opsets.excusing >= shape.opset && !as_it_came(g, lowered).find(shape).empty()) continue;
    const absl::flat_hash_set<std::vector<Id>> originals = node_signatures(e, lowered);
    for (const auto& place : places) {
      DeadlyPlace found{shape.because, {}, {}};
      for (const Placed* p : place) {
        if (p->node == kNone) continue;  // an output
        if (p != place.front() && p != place.back()) found.moved.push_back(p->node);
        const ENode node = e.node(p->node);
        if (!originals.contains(node_signature(e, node.op, node.children))) found.made.push_back(p->node);
      }
      out.push_back(std::move(found));
    }
  }
  return out;
}

}  // namespace saturate
