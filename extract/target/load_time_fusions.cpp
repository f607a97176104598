#include "extract/target/load_time_fusions.h"

#include <algorithm>
#include <array>

#include "extract/price/op_sizes.h"
#include "onnx_bridge/convert/op_key.h"

namespace saturate {
namespace {

std::string name_of(const OpKey& key) { return operator_name(key.domain, key.op_type); }

bool is_float(const Facts& f) { return f.dtype == DType::kFloat || f.dtype == DType::kFloat16 || f.dtype == DType::kDouble; }

bool has_constant_operand(const OnnxEGraph& g, const ENode& node) {
  return std::any_of(node.children.begin(), node.children.end(), [&](Id c) { return g.facts(c).constant; });
}

}  // namespace

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
