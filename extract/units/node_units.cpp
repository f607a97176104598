#include "extract/units/node_units.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "egraph/stop.h"
#include "extract/price/price.h"
#include "extract/sizes/op_sizes.h"
#include "extract/target/target_json.h"
#include "extract/units/check_selection.h"
#include "extract/units/coarse_units.h"
#include "extract/units/load_time_fusions.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/integer_kernels.h"

namespace saturate {

class UnitReaders {
 public:
  UnitReaders(const EGraph& e, const Lowered& lowered) : e_(e) {
    for (const Source& s : lowered.sources) {
      if (s.op == kNone) continue;
      nodes_.insert(node_signature(e, s.op, s.children));
      for (const Id child : s.children) ++readers_[e.find(child)];
    }
    for (const Id root : lowered.roots) outputs_.insert(e.find(root));
  }

  bool is_node(NodeId n) const { return n != kNone && nodes_.contains(node_signature(e_, e_.node(n).op, e_.node(n).children)); }
  bool is_output(Id id) const { return outputs_.contains(e_.find(id)); }
  bool reads_one(Id id) const {
    const auto it = readers_.find(e_.find(id));
    return it != readers_.end() && it->second == 1 && !is_output(id);
  }

 private:
  const EGraph& e_;
  absl::flat_hash_set<std::vector<Id>> nodes_;
  std::unordered_map<Id, int> readers_;
  absl::flat_hash_set<Id> outputs_;
};

const std::vector<std::string>* dequantized_from(const NodeUnit& unit, std::size_t i) {
  if (i >= unit.inputs.size()) return unit.variadic ? &unit.inputs.back() : nullptr;
  return unit.inputs[i].empty() ? nullptr : &unit.inputs[i];
}

bool is_quantized_at_load(const NodeUnit& unit, std::size_t i, const Facts& f) {
  return unit.quantized_at_load.contains(static_cast<int>(i)) && f.constant && f.dtype == DType::kFloat && f.shape && f.rank() == 1;
}

namespace {

// At equal cost the integer operator itself is taken.
constexpr double kLosesTies = 1 + 1e-6;
// A product and its bias are written as the one operator that the runtime makes of them; more than the price of an attribute of that.
constexpr double kLosesToOne = 1 + 1e-3;
// An operator leaves its unit where that is cheaper by this share at least. Of products with weights, times in integers hang most on the
// machine: on its instructions for products of bytes.
constexpr double kDoubt = 0.2, kDoubtOfProduct = 1;

bool is_in_unit(const OnnxEGraph& g, NodeId n) { return g.key(g.egraph().node(n).op).role != UnitRole::kNone; }

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

// An operator with the quantizers around it.
struct FoundUnit {
  const NodeUnit* unit = nullptr;
  NodeId op = kNone, joined = kNone, quantize = kNone;  // joined: an Add that the runtime joins with the operator
  Id last = kNone;                                      // class of the last value
  std::vector<NodeId> dequantizers;                     // by input; kNone: read as it is
};

// What is wrong around an operator, in the order in which it is looked at.
enum class Missing : std::uint8_t { kDequantizer, kDtype, kConstant, kAttribute, kQuantizer, kResultDtype, kParameters, kJoined };

struct MissedUnit {
  Missing what = Missing::kDequantizer;
  const NodeUnit* unit = nullptr;
  std::size_t input = 0;            // of the operator, where one is to blame
  DType dtype = DType::kUndefined;  // of the integers that do not fit
  DType wanted = DType::kUndefined;
  int there = 0;  // inputs that are dequantized as the unit takes them
};

// Units around the operators of an e-graph that is not changed meanwhile.
class UnitFinder {
 public:
  UnitFinder(const OnnxEGraph& g, const Target& target) : g_(g), e_(g.egraph()), target_(target) {}

  // Those around an e-node of this class; `missed` gets what is wrong with the target's others.
  std::vector<FoundUnit> find(NodeId n, Id id, std::vector<MissedUnit>* missed = nullptr) const {
    std::vector<FoundUnit> found;
    const OpKey& key = g_.key(e_.node(n).op);
    if (key.role != UnitRole::kNone || key.version != 0 || key.unique != 0 || key.outputs != 1) return found;
    const std::string name = operator_name(key.domain, key.op_type);
    for (const NodeUnit& unit : target_.node_units) {
      if (!unit.operators.contains(name)) continue;
      FoundUnit f{&unit, n, kNone, kNone, id, {}};
      const auto why = around(f, found);
      if (why && missed) missed->push_back(*why);
    }
    for (const auto& [of, becomes] : joined_at_load(g_, target_, e_.node(n), id)) find_joined(n, id, of, becomes, found);
    return found;
  }

 private:
  // Units around a product and the Add of class `sum` that the runtime makes one operator of: of the product's unit and of that operator's.
  void find_joined(NodeId n, Id id, Id sum, const std::string& becomes, std::vector<FoundUnit>& found) const {
    const std::string name = operator_name(g_.key(e_.node(n).op).domain, g_.key(e_.node(n).op).op_type);
    const auto unit_of = [&](const std::string& op) {
      return std::ranges::find_if(target_.node_units, [&](const NodeUnit& u) { return u.quantized && u.operators.contains(op); });
    };
    const auto unit = unit_of(name), joined = unit_of(becomes);
    if (unit == target_.node_units.end() || joined == target_.node_units.end()) return;
    for (const NodeId m : e_.class_nodes(sum)) {
      const ENode add = e_.node(m);
      if (!is_operator(g_.key(add.op), "Add") || add.children.size() != 2) continue;
      for (const std::size_t i : {0, 1})
        if (e_.find(add.children[i]) == id && is_quantized_at_load(*joined, 2, g_.facts(add.children[1 - i]))) {
          FoundUnit f{&*unit, n, m, kNone, sum, {}};
          around(f, found);
        }
    }
  }

  // The runtime writes uint8 for int8 between a QuantizeLinear and a DequantizeLinear, so that these are one type in the end.
  bool becomes_uint8(Id first, DType from, Id last, DType to) const {
    const bool bytes = (from == DType::kUint8 && to == DType::kInt8) || (from == DType::kInt8 && to == DType::kUint8);
    if (!bytes) return false;
    if (from == DType::kInt8)
      return std::ranges::any_of(e_.class_nodes(e_.find(first)),
                                 [&](NodeId n) { return is_operator(g_.key(e_.node(n).op), "QuantizeLinear"); });
    return std::ranges::any_of(e_.class_users(last), [&](NodeId n) { return is_operator(g_.key(e_.node(n).op), "DequantizeLinear"); });
  }

  bool absent(Id id) const { return id == kNone || g_.facts(id).kind == Facts::Kind::kAbsent; }

  // A DequantizeLinear in the class that the unit takes as input `i`; else what is missing.
  NodeId dequantizer(const NodeUnit& unit, std::size_t i, Id id, MissedUnit& missed) const {
    missed = {Missing::kDequantizer, &unit, i};
    for (const NodeId n : e_.class_nodes(id)) {
      const ENode node = e_.node(n);
      if (!is_operator(g_.key(node.op), "DequantizeLinear")) continue;
      const Facts& integers = g_.facts(node.children[0]);
      const bool fits = holds(*dequantized_from(unit, i), integers.dtype);
      if (fits && (integers.constant || !unit.constant_inputs.contains(static_cast<int>(i)))) return n;
      missed = {fits ? Missing::kConstant : Missing::kDtype, &unit, i, integers.dtype};
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

  // Adds `f` with each QuantizeLinear that closes it.
  std::optional<MissedUnit> around(FoundUnit& f, std::vector<FoundUnit>& found) const {
    const NodeUnit& unit = *f.unit;
    const ENode node = e_.node(f.op);
    NodeId first = kNone;
    int there = 0;
    MissedUnit missed{Missing::kDequantizer, &unit};
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      f.dequantizers.push_back(kNone);
      if (!dequantized_from(unit, i) || absent(node.children[i])) continue;
      f.dequantizers.back() = dequantizer(unit, i, e_.find(node.children[i]), missed);
      if (f.dequantizers.back() == kNone && is_quantized_at_load(unit, i, g_.facts(node.children[i]))) continue;
      if (f.dequantizers.back() == kNone) {
        missed.there = there;
        return missed;
      }
      ++there;
      if (first == kNone) first = f.dequantizers.back();
    }
    if (first == kNone) return missed;
    if (!refuse_attributes(unit.attributes, g_.key(node.op).attributes).empty())
      return MissedUnit{.what = Missing::kAttribute, .unit = &unit, .there = there};
    if (unit.quantized) return closed(f, e_.node(first), found);
    const auto joins = joined_at_load(g_, target_, node, f.last);
    if (!std::all_of(joins.begin(), joins.end(), [&](const auto& join) { return unit.operators.contains(join.second); }))
      return MissedUnit{.what = Missing::kJoined, .unit = &unit, .there = there};
    found.push_back(f);
    return std::nullopt;
  }

  std::optional<MissedUnit> closed(FoundUnit& f, const ENode& dequantize, std::vector<FoundUnit>& found) const {
    MissedUnit missed{Missing::kQuantizer, f.unit};
    bool any = false;
    const Id id = f.last;
    for (const NodeId user : e_.class_users(id)) {
      const ENode quantize = e_.node(user);
      if (!is_operator(g_.key(quantize.op), "QuantizeLinear") || e_.find(quantize.children[0]) != id) continue;
      const Id last = e_.find(e_.class_of(user));
      const DType from = g_.facts(dequantize.children[0]).dtype, to = g_.facts(last).dtype;
      if (to != from && !becomes_uint8(dequantize.children[0], from, last, to)) {
        missed = {Missing::kResultDtype, f.unit, 0, to, from};
      } else if (f.unit->same_parameters && !same_parameters(quantize, dequantize)) {
        missed = {Missing::kParameters, f.unit};
      } else {
        f.quantize = user, f.last = last, any = true;
        found.push_back(f);
      }
    }
    return any ? std::nullopt : std::optional(missed);
  }

  const OnnxEGraph& g_;
  const EGraph& e_;
  const Target& target_;
};

class UnitBuilder {
 public:
  explicit UnitBuilder(OnnxEGraph& g) : g_(g), e_(g.egraph()) {}

  // All are found before any is added: the classes change while units are.
  void run(const Lowered& lowered, const Target& target) {
    const UnitFinder finder(g_, target);
    const CoarseUnits coarse(g_, lowered);
    std::vector<FoundUnit> found;
    for (const Id id : e_.classes()) {
      heed_stop();
      for (const NodeId n : e_.class_nodes(id))
        for (FoundUnit& f : finder.find(n, id))
          if (!f.unit->coarse || !coarse.is_new(n)) found.push_back(std::move(f));
    }
    for (const FoundUnit& f : found) add(f);
    if (!found.empty()) e_.rebuild();
  }

 private:
  Id add_as(UnitRole role, const ENode& node, std::span<const Id> children) {
    OpKey key = g_.key(node.op);
    key.role = role;
    return g_.add(key, children);
  }

  void add(const FoundUnit& f) {
    const ENode node = e_.node(f.op);
    std::vector<Id> children(node.children.begin(), node.children.end());
    for (std::size_t i = 0; i < children.size(); ++i)
      if (f.dequantizers[i] != kNone) {
        const ENode dequantize = e_.node(f.dequantizers[i]);
        const std::vector<Id> of(dequantize.children.begin(), dequantize.children.end());
        children[i] = add_as(UnitRole::kPart, dequantize, of);
      }
    Id made = add_as(f.quantize == kNone ? UnitRole::kLast : UnitRole::kPart, e_.node(f.op), children);
    if (f.joined != kNone) {
      const ENode add = e_.node(f.joined);
      std::vector<Id> of(add.children.begin(), add.children.end());
      of[e_.find(of[0]) == e_.find(e_.class_of(f.op)) ? 0 : 1] = made;
      made = add_as(UnitRole::kPart, add, of);
    }
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

void add_node_units(OnnxEGraph& g, const Lowered& lowered, const Target& target) {
  if (!target.node_units.empty()) UnitBuilder(g).run(lowered, target);
}

namespace {

// Whether the unit takes these children of an operator in it: dequantized from integers of its types where it lists some, else as they are.
bool takes(const OnnxEGraph& g, const NodeUnit& unit, std::span<const Id> children) {
  for (std::size_t i = 0; i < children.size(); ++i) {
    const NodeId part = part_of(g, children[i]);
    const auto* dtypes = dequantized_from(unit, i);
    if (part == kNone &&
        (!dtypes || g.facts(children[i]).kind == Facts::Kind::kAbsent || is_quantized_at_load(unit, i, g.facts(children[i]))))
      continue;
    if (part == kNone || !dtypes || !holds(*dtypes, g.facts(g.egraph().node(part).children[0]).dtype)) return false;
  }
  return true;
}

std::string reason_of(const Target& target, const OpKey& key, const ENode& node, const MissedUnit& missed, const ValueNamer& name) {
  const auto input = [&] { return "its input " + name(node.children[missed.input]); };
  switch (missed.what) {
    case Missing::kDequantizer:
      return fmt::format("{} comes from no DequantizeLinear", input());
    case Missing::kDtype:
      return fmt::format("{} is dequantized from {}, and {} takes {} there", input(), dtype_name(missed.dtype), target.name,
                         fmt::join(*dequantized_from(*missed.unit, missed.input), " or "));
    case Missing::kConstant:
      return fmt::format("{} is dequantized from integers that are no constant", input());
    case Missing::kAttribute:
      return refuse_attributes(missed.unit->attributes, key.attributes);
    case Missing::kQuantizer:
      return "no QuantizeLinear reads its result";
    case Missing::kResultDtype:
      return fmt::format("its result is quantized to {}, its input from {}", dtype_name(missed.dtype), dtype_name(missed.wanted));
    case Missing::kParameters:
      return "its result is quantized with another scale or zero point than its input has";
    case Missing::kJoined:
      return fmt::format("{} joins it with the operator that reads its result before it looks for integer kernels", target.name);
  }
  return "";
}

}  // namespace

UnitAnswers::UnitAnswers(const OnnxEGraph& g, const Lowered& lowered, const Target& target)
    : g_(g), target_(target), readers_(std::make_shared<const UnitReaders>(g.egraph(), lowered)) {}

UnitAnswer UnitAnswers::of(const Source& source, const ValueNamer& name) const {
  const EGraph& e = g_.egraph();
  const OpKey& key = g_.key(source.op);
  const std::string op_name = operator_name(key.domain, key.op_type);
  const UnitAnswer none{"", fmt::format("{} has no integer kernel for {}", target_.name, op_name)};
  if (source.outputs.size() != 1 || source.outputs[0] == kNone) return none;
  const Id id = e.find(source.outputs[0]);
  const std::vector<Id> wanted = node_signature(e, source.op, source.children);
  const auto& nodes = e.class_nodes(id);
  const auto is_it = [&](NodeId n) { return e.node(n).op == source.op && node_signature(e, source.op, e.node(n).children) == wanted; };
  const auto op = std::find_if(nodes.begin(), nodes.end(), is_it);
  if (op == nodes.end()) return none;
  std::vector<MissedUnit> missed;
  const std::vector<FoundUnit> found = UnitFinder(g_, target_).find(*op, id, &missed);
  for (const FoundUnit& f : found)
    if (f.quantize == kNone || readers_->reads_one(id)) return {f.unit->becomes.empty() ? op_name : f.unit->becomes, ""};
  if (!found.empty())
    return {"", readers_->is_output(id) ? "its result is an output of the graph, so that the float is needed"
                                        : "its result is read by others beside the QuantizeLinear, so that the float is needed"};
  if (missed.empty()) return none;
  // The unit that comes nearest.
  const auto nearest = std::max_element(missed.begin(), missed.end(), [](const MissedUnit& a, const MissedUnit& b) {
    const auto rank = [](const MissedUnit& m) { return std::tuple(m.what > Missing::kDtype, m.there, -static_cast<int>(m.input), m.what); };
    return rank(a) < rank(b);
  });
  return {"", reason_of(target_, key, e.node(*op), *nearest, name)};
}

namespace {

// Of a part of a unit the product with which the runtime joins it; kNone where it joins it with none.
NodeId joined_product(const OnnxEGraph& g, const ENode& part) {
  for (const Id child : part.children)
    if (const NodeId n = part_of(g, child); n != kNone && g.key(g.egraph().node(n).op).op_type != "DequantizeLinear") return n;
  return kNone;
}

// What the kernel of the one operator costs that the runtime makes of a product and an Add, where these are matrices; else 0: a Reshape
// stands around it then, and the product's own kernel says what it costs.
double joined_cost(const OnnxEGraph& g, const Target& target, const CostModel& cost, const ENode& product, const ENode& add, Id id) {
  const EGraph& e = g.egraph();
  if (!g.facts(id).shape || g.facts(id).rank() != 2) return 0;
  std::vector<Id> inputs;
  for (const Id child : product.children) {
    const NodeId part = part_of(g, child);
    inputs.push_back(part == kNone ? child : e.node(part).children[0]);
  }
  for (const Id child : add.children)
    if (part_of(g, child) == kNone) inputs.push_back(child);
  for (const JoinedAtLoad& join : target.joins)
    for (const NodeUnit& unit : target.node_units)
      if (join.op == g.key(product.op).op_type && unit.quantized && unit.operators.contains(join.becomes))
        return cost.cost_as(g, {unit.becomes, {}}, inputs, id);
  return 0;
}

}  // namespace

double unit_cost(const OnnxEGraph& g, const Target& target, const CostModel& cost, const ENode& last, Id id) {
  const EGraph& e = g.egraph();
  const bool quantized = g.key(last.op).op_type == "QuantizeLinear";
  const NodeId part = quantized ? part_of(g, last.children[0]) : kNone;
  if (quantized && part == kNone) return cost.cost(g, last, id);  // behind one of several values (kept_quantizers.h)
  ENode op = quantized ? e.node(part) : last;
  if (const NodeId product = joined_product(g, op); product != kNone) {
    const double kernel = joined_cost(g, target, cost, e.node(product), op, id);
    if (kernel > 0) return kernel * kLosesToOne;
    op = e.node(product);
  }
  const OpKey& key = g.key(op.op);
  const std::string name = operator_name(key.domain, key.op_type);
  std::vector<Id> inputs;  // the integers
  for (const Id child : op.children) {
    const NodeId part = part_of(g, child);
    inputs.push_back(part == kNone ? child : e.node(part).children[0]);
  }
  for (const NodeUnit& unit : target.node_units) {
    if (!unit.operators.contains(name) || unit.quantized != quantized || !takes(g, unit, op.children)) continue;
    const IntegerKernel* integer = integer_kernel(unit.becomes);
    if (integer && integer->step == 0) inputs.resize(std::min(inputs.size(), integer->tensors.size()));
    OtherOperator as{unit.becomes.empty() ? name : unit.becomes, key.attributes};
    as.attributes.insert(as.attributes.end(), unit.kernel_attributes.begin(), unit.kernel_attributes.end());
    const double kernel = cost.cost_as(g, as, inputs, id);
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
      for (const NodeId part : {of, joined_product(g, e.node(of))})
        if (const NodeId plain = part == kNone ? kNone : without_unit(g, part); plain != kNone) out.insert(e.find(e.class_of(plain)));
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

double cost_in_channels_last(const OnnxEGraph& g, const CostModel& cost, const ENode& node, Id id) {
  const EGraph& e = g.egraph();
  const OpKey& key = g.key(node.op);
  const DType dtype = g.facts(id).dtype;
  if (!is_operator(key, "MaxPool") || key.outputs != 1 || (dtype != DType::kUint8 && dtype != DType::kInt8)) return kInfinity;
  for (const NodeId reader : e.class_users(e.find(node.children[0])))
    if (is_operator(g.key(e.node(reader).op), "DequantizeLinear") && e.find(e.node(reader).children[0]) == e.find(node.children[0]))
      return cost.cost_as(g, {"MaxPool", key.attributes}, std::array{e.find(e.class_of(reader))}, id);
  return kInfinity;
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
  const UnitReaders readers(e, lowered);
  // Its nodes are the model's, and each value between them is read once; a dequantized one may be read by others, too.
  const auto whole = [&](const auto& self, NodeId in_unit) -> bool {
    const NodeId plain = without_unit(g, in_unit);
    if (!readers.is_node(plain)) return false;
    for (const Id child : e.node(in_unit).children) {
      const NodeId part = part_of(g, child);
      if (part == kNone) continue;
      if (!self(self, part)) return false;
      const NodeId read = without_unit(g, part);
      if (g.key(e.node(read).op).op_type != "DequantizeLinear" && !readers.reads_one(e.class_of(read))) return false;
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
