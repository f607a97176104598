#include "extract/units/load_time_fusions.h"

#include <algorithm>
#include <array>

#include "extract/sizes/op_sizes.h"
#include "onnx_bridge/convert/op_key.h"
#include "onnx_bridge/operators/op_traits.h"

namespace saturate {
namespace {

std::string name_of(const OpKey& key) { return operator_name(key.domain, key.op_type); }

bool is_float(const Facts& f) { return f.dtype == DType::kFloat || f.dtype == DType::kFloat16 || f.dtype == DType::kDouble; }

bool has_constant_operand(const OnnxEGraph& g, const ENode& node) {
  return std::any_of(node.children.begin(), node.children.end(), [&](Id c) { return g.facts(c).constant; });
}

// Whether a value reaches a QuantizeLinear through what the runtime drops, joins with the operator before it, or moves behind the
// quantizer.
bool is_quantized_at_load(const OnnxEGraph& g, Id value, int depth = 4) {
  const EGraph& e = g.egraph();
  const std::vector<NodeId> readers = e.class_users(e.find(value));
  return std::any_of(readers.begin(), readers.end(), [&](NodeId n) {
    const ENode node = e.node(n);
    const OpKey& key = g.key(node.op);
    const std::string name = name_of(key);
    if (name == "QuantizeLinear") return e.find(node.children[0]) == e.find(value);
    const bool passed = has(Trait::kMovement, key) || name == "Relu" || name == "Clip" || name == "MaxPool" || name == "Add";
    return passed && depth > 0 && e.find(e.class_of(n)) != e.find(value) && is_quantized_at_load(g, e.class_of(n), depth - 1);
  });
}

}  // namespace

std::vector<std::pair<Id, std::string>> joined_at_load(const OnnxEGraph& g, const Target& target, const ENode& node, Id id) {
  const EGraph& e = g.egraph();
  std::vector<std::pair<Id, std::string>> out;
  const std::string name = name_of(g.key(node.op));
  const Facts& made = g.facts(id);
  const auto is_number = [&](Dim d) { return g.dims().value(d).has_value(); };
  if (!made.shape || (made.rank() != 2 && !std::all_of(made.shape->begin(), made.shape->end(), is_number))) return out;
  for (const JoinedAtLoad& join : target.joins) {
    if (join.op != name) continue;
    for (const NodeId user : e.class_users(e.find(id))) {
      const ENode reader = e.node(user);
      const OpKey& key = g.key(reader.op);
      if (key.role != UnitRole::kNone || name_of(key) != join.reader) continue;
      const auto is_bias = [&](Id other) { return e.find(other) != e.find(id) && g.facts(other).shape && g.facts(other).rank() <= 2; };
      if (std::any_of(reader.children.begin(), reader.children.end(), is_bias)) out.emplace_back(e.find(e.class_of(user)), join.becomes);
    }
  }
  return out;
}

bool quantizes_weights_of(const OnnxEGraph& g, const Target& target, const ENode& node, Id id) {
  const EGraph& e = g.egraph();
  const std::set<std::string>& operators = target.quantizes_weights.operators;
  const OpKey& key = g.key(node.op);
  if (operators.empty() || key.role != UnitRole::kNone || node.children.size() < 2 || !g.facts(node.children[1]).constant) return false;
  const auto is = [&](NodeId n, std::string_view op) { return name_of(g.key(e.node(n).op)) == op; };
  const auto& made = e.class_nodes(e.find(node.children[0]));
  if (std::none_of(made.begin(), made.end(), [&](NodeId n) { return is(n, "DequantizeLinear"); })) return false;
  if (operators.contains(name_of(key))) return is_quantized_at_load(g, id);
  const auto joined = joined_at_load(g, target, node, id);
  return std::any_of(joined.begin(), joined.end(),
                     [&](const auto& j) { return operators.contains(j.second) && is_quantized_at_load(g, j.first); });
}

void add_fused_convs_for_convs(OnnxEGraph& g, const Target& target) {
  EGraph& e = g.egraph();
  if (target.quantizes_weights.operators.empty()) return;
  std::vector<std::pair<Id, NodeId>> convs;
  for (const Id id : e.classes())
    for (const NodeId n : e.class_nodes(id))
      if (const ENode node = e.node(n); name_of(g.key(node.op)) == "Conv" && quantizes_weights_of(g, target, node, id))
        convs.emplace_back(id, n);
  for (const auto& [id, n] : convs) {
    const ENode node = e.node(n);
    const std::vector<Id> inputs(node.children.begin(), node.children.end());
    const Facts& x = g.facts(inputs[0]);
    const std::optional<int> rank = x.shape ? std::optional(x.rank()) : std::nullopt;
    e.merge(id, g.add(make_key("com.microsoft", "FusedConv", g.key(node.op).attributes, 1, rank), inputs));
  }
  if (!convs.empty()) e.rebuild();
}

ValueReaders::ValueReaders(const EGraph& e, const Lowered& lowered) : egraph_(e), lowered_(lowered) {
  for (std::size_t i = 0; i < lowered.sources.size(); ++i)
    for (Id c : lowered.sources[i].children) sources_[e.find(c)].push_back(i);
  for (Id r : lowered.roots) roots_.insert(e.find(r));
}

bool ValueReaders::only_for(Id value, Id consumer) const {
  constexpr std::size_t kMost = 24;  // values between the two
  const Id first = egraph_.find(value), last = egraph_.find(consumer);
  if (!sources_.contains(first)) return false;
  std::vector<Id> open{first};
  std::unordered_set<Id> seen{first};
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (roots_.contains(id) || seen.size() > kMost) return false;
    const auto readers = sources_.find(id);
    if (readers == sources_.end()) continue;
    for (std::size_t i : readers->second)
      for (Id output : lowered_.sources[i].outputs) {
        if (output == kNone) continue;
        const Id made = egraph_.find(output);
        if (made != last && seen.insert(made).second) open.push_back(made);
      }
  }
  return true;
}

bool is_fused_at_load(const OnnxEGraph& g, const Target& target, const ENode& node) {
  const std::string name = name_of(g.key(node.op));
  return std::any_of(target.load_time_fusions.begin(), target.load_time_fusions.end(),
                     [&](const LoadTimeFusion& f) { return f.producer == name; });
}

bool may_end_the_runtime(const OnnxEGraph& g, const ENode& cast, Id id) {
  const EGraph& e = g.egraph();
  if (g.key(cast.op).op_type != "Cast" || !g.key(cast.op).domain.empty()) return false;
  const auto moves_first_axis = [&](NodeId n) {
    const OpKey& key = g.key(e.node(n).op);
    const Attribute* perm = key.op_type == "Transpose" ? find_attribute(key.attributes, "perm") : nullptr;
    if (!perm || perm->ints().size() < 3) return false;
    const auto& p = perm->ints();
    for (std::size_t i = 0; i + 2 < p.size(); ++i)
      if (p[i] != static_cast<std::int64_t>(i) + 1) return false;
    return true;
  };
  const auto multiplies = [&](NodeId n) {
    const ENode user = e.node(n);
    const std::string& op = g.key(user.op).op_type;
    return (op == "MatMul" || op == "FusedMatMul") && e.find(user.children[0]) == e.find(id);
  };
  const std::vector<NodeId> users = e.class_users(e.find(id));
  if (std::none_of(users.begin(), users.end(), multiplies)) return false;
  const auto& made = e.class_nodes(e.find(cast.children[0]));
  return std::any_of(made.begin(), made.end(), moves_first_axis);
}

double load_time_surcharge(const OnnxEGraph& g, const Target& target, const CostModel& cost, const ENode& consumer, Id id,
                           const ValueReaders& readers) {
  const EGraph& e = g.egraph();
  const std::string name = name_of(g.key(consumer.op));
  if (consumer.children.empty()) return 0;
  const Id made = e.find(consumer.children[0]);
  double surcharge = 0;
  for (const LoadTimeFusion& f : target.load_time_fusions) {
    if (f.consumer != name || !readers.only_for(made, id)) continue;
    for (NodeId n : e.class_nodes(made)) {
      const ENode producer = e.node(n);
      if (name_of(g.key(producer.op)) != f.producer || (f.constant_operand && !has_constant_operand(g, producer))) continue;
      std::vector<Id> inputs(producer.children.begin(), producer.children.end());
      inputs.insert(inputs.end(), consumer.children.begin() + 1, consumer.children.end());
      const double pair = cost.cost_as(g, {f.becomes}, inputs, id);
      if (pair > 0) surcharge = std::max(surcharge, pair - cost.cost(g, consumer, id) - cost.cost(g, producer, made));
    }
  }
  return surcharge;
}

void add_sums_for_adds(OnnxEGraph& g, const Lowered& lowered, const Target& target) {
  if (target.load_time_fusions.empty()) return;
  EGraph& e = g.egraph();
  const ValueReaders readers(e, lowered);
  std::vector<std::pair<Id, std::array<Id, 2>>> sums;
  for (Id id : e.classes())
    for (NodeId n : e.class_nodes(id)) {
      const ENode consumer = e.node(n);
      const std::string name = name_of(g.key(consumer.op));
      const auto is_consumer = [&](const LoadTimeFusion& f) { return f.consumer == name && f.producer == "Add"; };
      if (consumer.children.empty() || std::none_of(target.load_time_fusions.begin(), target.load_time_fusions.end(), is_consumer))
        continue;
      const Id made = e.find(consumer.children[0]);
      if (!is_float(g.facts(made)) || !readers.only_for(made, id)) continue;
      for (NodeId m : e.class_nodes(made))
        if (const ENode producer = e.node(m); name_of(g.key(producer.op)) == "Add" && producer.children.size() == 2)
          sums.push_back({made, {producer.children[0], producer.children[1]}});
    }
  const OpKey sum = make_key("", "Sum", {}, 1, 2);
  for (const auto& [made, inputs] : sums) e.merge(made, g.add(sum, inputs));
  if (!sums.empty()) e.rebuild();
}

}  // namespace saturate
