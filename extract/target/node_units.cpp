#include "extract/target/node_units.h"

#include <algorithm>
#include <array>

#include "absl/container/flat_hash_set.h"
#include "extract/extract.h"
#include "extract/price/integer_kernels.h"
#include "extract/price/op_sizes.h"
#include "extract/target/load_time_fusions.h"

namespace saturate {
namespace {

// At equal cost the integer operator itself is taken.
constexpr double kLosesTies = 1 + 1e-6;
// An operator leaves its unit where that is cheaper by this share at least. Of products with weights, times in integers hang most on the
// machine: on its instructions for products of bytes.
constexpr double kDoubt = 0.2, kDoubtOfProduct = 1;

bool is_in_unit(const OnnxEGraph& g, NodeId n) { return g.key(g.egraph().node(n).op).role != UnitRole::kNone; }

bool is_operator(const OpKey& key, std::string_view op_type) {
  return key.domain.empty() && key.op_type == op_type && key.role == UnitRole::kNone && key.version == 0 && key.unique == 0;
}

bool holds(const std::vector<std::string>& dtypes, DType dtype) {
  return std::find(dtypes.begin(), dtypes.end(), dtype_name(dtype)) != dtypes.end();
}

bool is_convolution(std::string_view op) { return op == "Conv" || op == "FusedConv" || op == "ConvTranspose"; }

bool multiplies_by_weights(const OnnxEGraph& g, const ENode& node) {
  const std::string& op = g.key(node.op).op_type;
  if (is_convolution(op)) return true;
  if (op != "MatMul" && op != "Gemm" && op != "FusedMatMul" && op != "FusedGemm" && op != "Attention") return false;
  return node.children.size() > 1 && g.facts(node.children[1]).constant;
}

Id child_or_absent(const ENode& node, std::size_t i) { return i < node.children.size() ? node.children[i] : kNone; }

// Nodes of classes as they were before units were added: the classes change while these are.
class UnitBuilder {
 public:
  UnitBuilder(OnnxEGraph& g, const Target& target) : g_(g), e_(g.egraph()), target_(target) {}

  void run() {
    for (const Id id : e_.classes())
      for (const NodeId n : e_.class_nodes(id)) {
        const OpKey& key = g_.key(e_.node(n).op);
        if (key.role != UnitRole::kNone || key.version != 0 || key.unique != 0 || key.outputs != 1) continue;
        const std::string name = operator_name(key.domain, key.op_type);
        for (const NodeUnit& unit : target_.node_units)
          if (unit.operators.contains(name)) find(unit, n, id);
      }
    for (const Found& f : found_) add(f);
    if (!found_.empty()) e_.rebuild();
  }

 private:
  struct Found {
    NodeId op = kNone, quantize = kNone;
    Id last = kNone;                   // class of the last value
    std::vector<NodeId> dequantizers;  // by input; kNone: read as it is
  };

  bool absent(Id id) const { return id == kNone || g_.facts(id).kind == Facts::Kind::kAbsent; }

  // A DequantizeLinear in the class that the unit takes as input `i`.
  NodeId dequantizer(const NodeUnit& unit, std::size_t i, Id id) const {
    for (const NodeId n : e_.class_nodes(id)) {
      const ENode node = e_.node(n);
      if (!is_operator(g_.key(node.op), "DequantizeLinear")) continue;
      if (!holds(unit.inputs[std::min(i, unit.inputs.size() - 1)], g_.facts(node.children[0]).dtype)) continue;
      if (unit.constant_inputs.contains(static_cast<int>(i)) && !g_.facts(node.children[0]).constant) continue;
      return n;
    }
    return kNone;
  }

  bool same_parameters(const ENode& a, const ENode& b) const {
    for (const std::size_t i : {1, 2}) {
      const Id x = child_or_absent(a, i), y = child_or_absent(b, i);
      if (absent(x) != absent(y) || (!absent(x) && e_.find(x) != e_.find(y))) return false;
    }
    return true;
  }

  void find(const NodeUnit& unit, NodeId n, Id id) {
    const ENode node = e_.node(n);
    if (!unit.quantized && !joined_at_load(g_, target_, node, id).empty()) return;
    Found f{n, kNone, id, {}};
    NodeId first = kNone;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      const bool listed = i < unit.inputs.size() ? !unit.inputs[i].empty() : unit.variadic;
      f.dequantizers.push_back(kNone);
      if (!listed || absent(node.children[i])) continue;
      f.dequantizers.back() = dequantizer(unit, i, e_.find(node.children[i]));
      if (f.dequantizers.back() == kNone) return;
      if (first == kNone) first = f.dequantizers.back();
    }
    if (first == kNone) return;
    if (!unit.quantized) {
      found_.push_back(std::move(f));
      return;
    }
    const ENode dequantize = e_.node(first);
    for (const NodeId user : e_.class_users(id)) {
      const ENode quantize = e_.node(user);
      if (!is_operator(g_.key(quantize.op), "QuantizeLinear") || e_.find(quantize.children[0]) != id) continue;
      const Id last = e_.find(e_.class_of(user));
      if (g_.facts(last).dtype != g_.facts(dequantize.children[0]).dtype) continue;
      if (unit.same_parameters && !same_parameters(quantize, dequantize)) continue;
      f.quantize = user, f.last = last;
      found_.push_back(f);
    }
  }

  Id add_as(UnitRole role, const ENode& node, std::span<const Id> children) {
    OpKey key = g_.key(node.op);
    key.role = role;
    return g_.add(key, children);
  }

  void add(const Found& f) {
    const ENode node = e_.node(f.op);
    std::vector<Id> children(node.children.begin(), node.children.end());
    for (std::size_t i = 0; i < children.size(); ++i)
      if (f.dequantizers[i] != kNone) {
        const ENode dequantize = e_.node(f.dequantizers[i]);
        const std::vector<Id> of(dequantize.children.begin(), dequantize.children.end());
        children[i] = add_as(UnitRole::kPart, dequantize, of);
      }
    Id made = add_as(f.quantize == kNone ? UnitRole::kLast : UnitRole::kPart, e_.node(f.op), children);
    if (f.quantize != kNone) {
      const ENode quantize = e_.node(f.quantize);
      std::vector<Id> of(quantize.children.begin(), quantize.children.end());
      of[0] = made;
      made = add_as(UnitRole::kLast, quantize, of);
    }
    e_.merge(f.last, made);
  }

  OnnxEGraph& g_;
  EGraph& e_;
  const Target& target_;
  std::vector<Found> found_;
};

// The part of a unit that makes a value, which is that part's alone; kNone where the value is any other.
NodeId part_of(const OnnxEGraph& g, Id id) {
  const auto& made = g.egraph().class_nodes(g.egraph().find(id));
  return !made.empty() && g.key(g.egraph().node(made.front()).op).role == UnitRole::kPart ? made.front() : kNone;
}

void drop_unneeded(const EGraph& e, const std::vector<Id>& roots, Selection& selection) {
  std::vector<bool> needed(selection.by_class.size());
  std::vector<Id> open;
  const auto reach = [&](Id id) {
    if (!needed[id]) needed[id] = true, open.push_back(id);
  };
  for (const Id root : roots) reach(e.find(root));
  while (!open.empty()) {
    const Choice choice = selection.by_class[open.back()];
    open.pop_back();
    if (choice.node == kNone || choice.folded) continue;
    for (const Id child : e.node(choice.node).children) reach(e.find(child));
  }
  for (Id id = 0; id < selection.by_class.size(); ++id)
    if (!needed[id]) selection.by_class[id] = {};
}

}  // namespace

void add_node_units(OnnxEGraph& g, const Target& target) {
  if (!target.node_units.empty()) UnitBuilder(g, target).run();
}

double unit_cost(const OnnxEGraph& g, const Target& target, const CostModel& cost, const ENode& last, Id id) {
  const EGraph& e = g.egraph();
  const bool quantized = g.key(last.op).op_type == "QuantizeLinear";
  const ENode op = quantized ? e.node(part_of(g, last.children[0])) : last;
  const OpKey& key = g.key(op.op);
  const std::string name = operator_name(key.domain, key.op_type);
  std::vector<Id> inputs;  // the integers
  for (const Id child : op.children) {
    const NodeId part = part_of(g, child);
    inputs.push_back(part == kNone ? child : e.node(part).children[0]);
  }
  for (const NodeUnit& unit : target.node_units) {
    if (!unit.operators.contains(name) || unit.quantized != quantized) continue;
    const IntegerKernel* integer = integer_kernel(unit.becomes);
    if (integer && integer->step == 0) inputs.resize(std::min(inputs.size(), integer->tensors.size()));
    const double kernel = cost.cost_as(g, {unit.becomes.empty() ? name : unit.becomes, key.attributes}, inputs, id);
    if (kernel > 0) return kernel * kLosesTies;
  }
  return cost.cost(g, op, quantized ? e.find(last.children[0]) : id) * kLosesTies;
}

absl::flat_hash_set<Id> values_in_units(const OnnxEGraph& g) {
  const EGraph& e = g.egraph();
  absl::flat_hash_set<Id> out;
  for (const Id id : e.classes()) {
    bool any = false;
    for (const NodeId n : e.class_nodes(id)) {
      const ENode last = e.node(n);
      if (g.key(last.op).role != UnitRole::kLast) continue;
      any = true;
      const NodeId of = g.key(last.op).op_type == "QuantizeLinear" ? part_of(g, last.children[0]) : n;
      if (const NodeId plain = without_unit(g, of); plain != kNone) out.insert(e.find(e.class_of(plain)));
    }
    if (!any || is_floating(g.facts(id).dtype)) continue;
    for (const NodeId reader : e.class_users(id))
      if (is_operator(g.key(e.node(reader).op), "DequantizeLinear") && e.find(e.node(reader).children[0]) == id)
        out.insert(e.find(e.class_of(reader)));
  }
  return out;
}

double cost_outside_unit(const OnnxEGraph& g, const CostModel& cost, const ENode& node, Id id, double alone) {
  if (is_operator(g.key(node.op), "DequantizeLinear")) return 0;
  const auto is_float = [&](Id value) { return g.facts(value).kind == Facts::Kind::kTensor && is_floating(g.facts(value).dtype); };
  if (std::none_of(node.children.begin(), node.children.end(), is_float)) return 0;
  const std::string& op = g.key(node.op).op_type;
  const auto& shape = g.facts(id).shape;
  double more = (multiplies_by_weights(g, node) ? kDoubtOfProduct : kDoubt) * alone;
  if (!shape || shape->size() != 4 || (!is_convolution(op) && !op.ends_with("Pool"))) return more;
  const OtherOperator channels_last{"Transpose", {Attribute::of("perm", std::vector<std::int64_t>{0, 2, 3, 1})}};
  for (const Id value : {node.children[0], id}) more += cost.cost_as(g, channels_last, std::array{value}, value);
  return more;
}

NodeId without_unit(const OnnxEGraph& g, NodeId in_unit) {
  const EGraph& e = g.egraph();
  const ENode node = e.node(in_unit);
  OpKey key = g.key(node.op);
  key.role = UnitRole::kNone;
  const std::optional<OpId> op = g.find_op(key);
  if (!op) return kNone;
  std::vector<Id> children;
  for (const Id child : node.children) {
    const NodeId part = part_of(g, child), same = part == kNone ? kNone : without_unit(g, part);
    children.push_back(same == kNone ? child : e.class_of(same));
  }
  const Id id = e.lookup(*op, children);
  if (id == kNone) return kNone;
  const std::vector<Id> wanted = node_signature(e, *op, children);
  for (const NodeId n : e.class_nodes(e.find(id)))
    if (e.node(n).op == *op && node_signature(e, *op, e.node(n).children) == wanted) return n;
  return kNone;
}

std::vector<NodeId> units_of_model(const OnnxEGraph& g, const Lowered& lowered) {
  const EGraph& e = g.egraph();
  absl::flat_hash_set<std::vector<Id>> originals;
  std::unordered_map<Id, int> readers;  // of what classes hold: nodes and outputs of the model
  for (const Source& s : lowered.sources) {
    if (s.op == kNone) continue;
    originals.insert(node_signature(e, s.op, s.children));
    for (const Id child : s.children) ++readers[e.find(child)];
  }
  for (const Id root : lowered.roots) ++readers[e.find(root)];
  const auto is_original = [&](NodeId n) { return n != kNone && originals.contains(node_signature(e, e.node(n).op, e.node(n).children)); };
  // Its nodes are the model's, and each value between them is read once; a dequantized one may be read by others, too.
  const auto whole = [&](const auto& self, NodeId in_unit) -> bool {
    const NodeId plain = without_unit(g, in_unit);
    if (!is_original(plain)) return false;
    for (const Id child : e.node(in_unit).children) {
      const NodeId part = part_of(g, child);
      if (part == kNone) continue;
      if (!self(self, part)) return false;
      const NodeId read = without_unit(g, part);
      if (g.key(e.node(read).op).op_type != "DequantizeLinear" && readers[e.find(e.class_of(read))] != 1) return false;
    }
    return true;
  };
  std::vector<NodeId> out;
  const auto add = [&](const auto& self, NodeId in_unit) -> void {
    out.push_back(in_unit);
    for (const Id child : e.node(in_unit).children)
      if (const NodeId part = part_of(g, child); part != kNone) self(self, part);
  };
  for (const Id id : e.classes())
    for (const NodeId n : e.class_nodes(id))
      if (g.key(e.node(n).op).role == UnitRole::kLast && whole(whole, n)) add(add, n);
  return out;
}

Selection without_units(const OnnxEGraph& g, const std::vector<Id>& roots, Selection selection) {
  const EGraph& e = g.egraph();
  Selection out = selection;
  bool changed = false;
  // Children first, so that what reads a node of a unit finds what stands for it: classes of parts hold that part alone.
  const auto replace = [&](const auto& self, Id id) -> bool {
    const Choice choice = selection.by_class[id];
    if (choice.node == kNone || choice.folded || !is_in_unit(g, choice.node)) return false;
    bool all = true;
    for (const Id child : e.node(choice.node).children)
      if (part_of(g, child) != kNone) all = self(self, e.find(child)) && all;
    const NodeId plain = all ? without_unit(g, choice.node) : kNone;
    if (plain == kNone) return false;
    const Id of = e.find(e.class_of(plain));
    const Choice& taken = out.by_class[of];
    if (of != id && (taken.folded || (taken.node != kNone && taken.node != plain))) return false;
    out.by_class[of] = {plain, false};
    return changed = true;
  };
  for (Id id = 0; id < selection.by_class.size(); ++id)
    if (const Choice& c = selection.by_class[id]; c.node != kNone && !c.folded && g.key(e.node(c.node).op).role == UnitRole::kLast)
      replace(replace, id);
  if (!changed || !check_selection(e, roots, out).empty()) return selection;
  drop_unneeded(e, roots, out);
  return out;
}

}  // namespace saturate
